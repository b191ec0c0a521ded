package supervisor

import (
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

func said(phase, text string) rpc.Item {
	return rpc.Item{Type: rpc.ItemAgentMessage, ID: phase + text, Phase: phase, Text: text}
}

func TestAnswer_Final(t *testing.T) {
	for _, c := range []struct {
		name string
		said []rpc.Item
		turn []rpc.Item
		want string
	}{
		{"LastFinalWins", []rpc.Item{said(rpc.PhaseFinalAnswer, "one"), said(rpc.PhaseFinalAnswer, "two"), said("", "note")}, nil, "two"},
		{"FinalBeatsTheCompletionsItem", []rpc.Item{said(rpc.PhaseFinalAnswer, "said")}, []rpc.Item{said("", "other")}, "said"},
		{"CompletionsItemBeatsUnmarked", []rpc.Item{said("", "thinking")}, []rpc.Item{said("", "done")}, "done"},
		{"UnmarkedWhenNothingElse", []rpc.Item{said("", "first"), said("", "last")}, nil, "last"},
		{"PartialAnswerCounts", []rpc.Item{said("partial_answer", "half")}, nil, "half"},
		{"CommentaryIsNeverPromoted", []rpc.Item{said(rpc.PhaseCommentary, "looking")}, []rpc.Item{said(rpc.PhaseCommentary, "looking")}, ""},
		{"BlankIsNoAnswer", []rpc.Item{said("", "real"), said(rpc.PhaseFinalAnswer, " \n")}, nil, "real"},
		{"OtherItemsAreNoAnswer", []rpc.Item{{Type: "reasoning", Text: "hm"}}, []rpc.Item{{Type: "plan", Text: "p"}}, ""},
		{"NothingSaid", nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAnswer()
			for _, it := range c.said {
				a.completed(it)
			}
			if got := a.final(&rpc.Turn{Items: c.turn}); got != c.want {
				t.Errorf("final %q, want %q", got, c.want)
			}
		})
	}
}

func TestAnswer_Partial(t *testing.T) {
	a := newAnswer()
	a.completed(said("", "done before"))
	if got := a.partial(); got != "done before" {
		t.Errorf("partial %q, want the completed message", got)
	}
	a.delta("m1", "half ")
	a.delta("m1", "a sentence")
	if got := a.partial(); got != "half a sentence" {
		t.Errorf("partial %q, want what was being written", got)
	}
	if a.length != len("done before")+len("half a sentence") {
		t.Errorf("length %d", a.length)
	}
	a.delta("m1", strings.Repeat("x", 2*partialLimit))
	if n := len(a.partial()); n > partialLimit {
		t.Errorf("kept %d bytes of unfinished text, limit %d", n, partialLimit)
	}
	it := said("", "half a sentence.")
	it.ID = "m1"
	a.completed(it)
	if got := a.partial(); got != "half a sentence." {
		t.Errorf("partial %q, want the completed text", got)
	}
}
