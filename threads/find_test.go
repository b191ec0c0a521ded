package threads_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

func asked(id string) rpc.Item { return rpc.Item{Type: rpc.ItemUserMessage, ClientID: id} }

func said(phase, text string) rpc.Item {
	return rpc.Item{Type: rpc.ItemAgentMessage, Phase: phase, Text: text}
}

// history answers thread/turns/list like the app-server does: newest first, in
// pages, with the first user message and the last agent message in the summary.
func history(turns ...rpc.Turn) func(rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
	return func(p rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
		from, _ := strconv.Atoi(p.Cursor)
		to := min(from+p.Limit, len(turns))
		var reply rpc.ThreadTurnsListReply
		for _, turn := range turns[from:to] {
			if p.ItemsView == "summary" {
				turn.Items = summary(turn.Items)
			}
			reply.Data = append(reply.Data, turn)
		}
		if to < len(turns) {
			reply.NextCursor = strconv.Itoa(to)
		}
		return reply, nil
	}
}

func summary(items []rpc.Item) []rpc.Item {
	var user, agent []rpc.Item
	for _, it := range items {
		switch it.Type {
		case rpc.ItemUserMessage:
			if user == nil {
				user = []rpc.Item{it}
			}
		case rpc.ItemAgentMessage:
			agent = []rpc.Item{it}
		}
	}
	return append(user, agent...)
}

func turn(id, status string, items ...rpc.Item) rpc.Turn {
	return rpc.Turn{ID: id, Status: status, Items: items}
}

func (h *house) find(clientID string) (threads.Found, error) {
	return h.Find(h.tb.Context(), h.client, "t1", clientID)
}

func TestFind_States(t *testing.T) {
	failure := &rpc.TurnError{Message: "no more"}
	failed := turn("f", rpc.TurnFailed, asked("task/2"))
	failed.Error = failure
	h := newHouse(t)
	// Neighbours with other states and other ids, an empty cut turn, messages of
	// nobody: only the id counts.
	h.client.TurnsFn = history(
		turn("x", rpc.TurnInterrupted),
		turn("y", rpc.TurnCompleted, asked(""), said(rpc.PhaseFinalAnswer, "not this")),
		turn("a", rpc.TurnCompleted, asked("task/1"), said(rpc.PhaseFinalAnswer, "yes")),
		failed,
		turn("i", rpc.TurnInterrupted, asked("task/3"), said(rpc.PhaseCommentary, "working")),
		turn("p", rpc.TurnInProgress, asked("task/4")),
		turn("o", "paused", asked("task/5")), // a status of the future
		turn("c", rpc.TurnCompleted, rpc.Item{Type: rpc.ItemAgentMessage, ClientID: "task/6"}),
		turn("n", rpc.TurnCompleted, asked("task/10"), said(rpc.PhaseFinalAnswer, "ten")),
	)
	for id, want := range map[string]threads.Found{
		"task/1":  {State: threads.Completed, Reply: "yes", TurnID: "a"},
		"task/2":  {State: threads.Failed, Err: failure, TurnID: "f"},
		"task/3":  {State: threads.Interrupted, TurnID: "i"},
		"task/4":  {State: threads.InProgress, TurnID: "p"},
		"task/5":  {State: threads.Interrupted, TurnID: "o"},
		"task/6":  {State: threads.NeverStored},
		"task":    {State: threads.NeverStored},
		"task/10": {State: threads.Completed, Reply: "ten", TurnID: "n"},
	} {
		if got, err := h.find(id); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", id, got, err, want)
		}
	}
	if _, err := h.find(""); err == nil {
		t.Error("an empty id was looked for")
	}
}

func TestFind_Reply(t *testing.T) {
	for name, tc := range map[string]struct {
		items []rpc.Item
		want  string
		calls int
	}{
		"Final":           {[]rpc.Item{said("", "no"), said(rpc.PhaseFinalAnswer, "yes")}, "yes", 1},
		"FinalIsNotLast":  {[]rpc.Item{said(rpc.PhaseFinalAnswer, "yes"), said(rpc.PhaseCommentary, "no")}, "yes", 2},
		"FinalBeforeNone": {[]rpc.Item{said(rpc.PhaseFinalAnswer, "yes"), said("", "no")}, "yes", 2},
		"LastFinal":       {[]rpc.Item{said(rpc.PhaseFinalAnswer, "no"), said(rpc.PhaseFinalAnswer, "yes"), said("", "no")}, "yes", 2},
		"NoPhase":         {[]rpc.Item{said("", "no"), said("", "yes")}, "yes", 2},
		"Partial":         {[]rpc.Item{said("", "no"), said(rpc.PhasePartialAnswer, "yes"), said(rpc.PhaseCommentary, "no")}, "yes", 2},
		"CommentaryOnly":  {[]rpc.Item{said(rpc.PhaseCommentary, "no")}, "", 2},
		"Blank":           {[]rpc.Item{said("", "yes"), said(rpc.PhaseFinalAnswer, " \n")}, "yes", 2},
		"Nothing":         {nil, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			turns := []rpc.Turn{turn("other", rpc.TurnCompleted, asked("other"), said("", "other")), turn("a", rpc.TurnCompleted, append([]rpc.Item{asked("task/1")}, tc.items...)...)}
			h.client.TurnsFn = history(turns...)
			got, err := h.find("task/1")
			if err != nil || got.State != threads.Completed || got.Reply != tc.want {
				t.Errorf("found %+v, %v", got, err)
			}
			want := []string{"turns  5 summary", "turns  2 full"}[:tc.calls]
			if calls := h.client.take(); !slices.Equal(calls, want) {
				t.Errorf("calls %q, want %q", calls, want)
			}
		})
	}
}

// TestFind_FullViewFails: the summary has to do, unless the connection is gone.
func TestFind_FullViewFails(t *testing.T) {
	for name, tc := range map[string]struct {
		reply rpc.ThreadTurnsListReply
		err   error
		want  string
	}{
		"Error":     {err: errOther, want: "summary"},
		"OtherTurn": {reply: rpc.ThreadTurnsListReply{Data: []rpc.Turn{turn("z", rpc.TurnCompleted, said("", "wrong"))}}, want: "summary"},
		"NoItems":   {reply: rpc.ThreadTurnsListReply{Data: []rpc.Turn{turn("a", rpc.TurnCompleted)}}, want: "summary"},
		"Pipe":      {err: errPipe},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			whole := history(turn("a", rpc.TurnCompleted, asked("task/1"), said("", "summary")))
			h.client.TurnsFn = func(p rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
				if p.ItemsView == "full" {
					return tc.reply, tc.err
				}
				return whole(p)
			}
			got, err := h.find("task/1")
			if tc.want == "" {
				if !errors.Is(err, tc.err) || got.State != "" {
					t.Errorf("found %+v, %v", got, err)
				}
				return
			}
			if err != nil || got.Reply != tc.want || got.State != threads.Completed {
				t.Errorf("found %+v, %v", got, err)
			}
		})
	}
}

func manyTurns(n int) []rpc.Turn {
	var turns []rpc.Turn
	for i := range n {
		turns = append(turns, turn(fmt.Sprint("turn-", i), rpc.TurnCompleted, asked(fmt.Sprint("task/", i)), said(rpc.PhaseFinalAnswer, fmt.Sprint("reply ", i))))
	}
	return turns
}

func TestFind_Pages(t *testing.T) {
	h := newHouse(t)
	h.client.TurnsFn = history(manyTurns(60)...)
	if got, err := h.find("task/56"); err != nil || got.Reply != "reply 56" {
		t.Errorf("found %+v, %v", got, err)
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"turns  5 summary", "turns 5 50 summary", "turns 55 50 summary"}) {
		t.Errorf("calls %q", calls)
	}
	if got, err := h.find("task/60"); err != nil || got.State != threads.NeverStored {
		t.Errorf("behind the oldest: %+v, %v", got, err)
	}
}

// TestFind_TooDeep: not to have found is no proof while there is more to look at.
func TestFind_TooDeep(t *testing.T) {
	h := newHouse(t)
	h.client.TurnsFn = history(manyTurns(1200)...)
	if got, err := h.find("task/1199"); err == nil || got.State != "" || !strings.Contains(err.Error(), "task/1199") {
		t.Errorf("found %+v, %v", got, err)
	}
	if n := len(h.client.take()); n != 21 {
		t.Errorf("%d calls", n)
	}
	// A server that never comes to an end is not followed for ever.
	h.client.TurnsFn = func(rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
		return rpc.ThreadTurnsListReply{NextCursor: "again"}, nil
	}
	if _, err := h.find("task/1"); err == nil {
		t.Error("an endless history says nothing")
	}
}

// TestFind_LargeReplies: a page over the read limit is taken turn by turn.
func TestFind_LargeReplies(t *testing.T) {
	h := newHouse(t)
	whole := history(manyTurns(8)...)
	tooLarge := replyTooLarge(t)
	h.client.TurnsFn = func(p rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
		if p.Limit > 1 {
			return rpc.ThreadTurnsListReply{}, tooLarge
		}
		return whole(p)
	}
	if got, err := h.find("task/2"); err != nil || got.Reply != "reply 2" {
		t.Errorf("found %+v, %v", got, err)
	}
	if calls := h.client.take(); !slices.Equal(calls, []string{"turns  5 summary", "turns  1 summary", "turns 1 1 summary", "turns 2 1 summary"}) {
		t.Errorf("calls %q", calls)
	}
	h.client.TurnsFn = func(rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
		return rpc.ThreadTurnsListReply{}, tooLarge
	}
	if got, err := h.find("task/2"); !errors.Is(err, tooLarge) || got.State != "" {
		t.Errorf("a turn that cannot be read: %+v, %v", got, err)
	}
}

func TestFind_Unreadable(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want threads.FoundState
	}{
		{errNoRollout, threads.ThreadMissing},
		{errNotLoaded, threads.ThreadMissing},
		{errUnreadable, threads.ThreadMissing},
		{errArchived, threads.ThreadMissing},
		{errRemoved, threads.ThreadMissing},
		{errInvalid, threads.ThreadMissing},
		{errNoTurns, threads.NeverStored},
		{errLocked, threads.ThreadLocked},
		{errPipe, ""},
		{errOther, ""},
		{context.DeadlineExceeded, ""},
	} {
		h := newHouse(t)
		h.client.TurnsFn = func(rpc.ThreadTurnsListParams) (rpc.ThreadTurnsListReply, error) {
			return rpc.ThreadTurnsListReply{}, tc.err
		}
		got, err := h.find("task/1")
		if got != (threads.Found{State: tc.want}) || (err == nil) != (tc.want != "") || (err != nil && !errors.Is(err, tc.err)) {
			t.Errorf("%v: found %+v, %v", tc.err, got, err)
		}
	}
}

// replyTooLarge is what rpc makes up for a reply that it skipped.
func replyTooLarge(t *testing.T) error {
	t.Helper()
	err := &rpc.Error{Method: "thread/turns/list", Code: 7_310_001, Message: "a reply of 40000000 bytes is over the read limit"}
	if got := rpc.FaultOf(err); got != rpc.FaultReplyTooLarge {
		t.Fatalf("the error stands for %q", got)
	}
	return err
}
