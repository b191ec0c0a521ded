package stubserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// runTurn plays one turn from its start to its end.
func (s *Server) runTurn(ctx context.Context, r *turn, clientID string) {
	s.begin(r)
	user := rpc.Item{Type: rpc.ItemUserMessage, ID: newID(), ClientID: clientID, Text: r.prompt}
	s.mu.Lock()
	before := prompts(r.thread.entries)
	cut := 0
	for _, t := range turnsOf(r.thread.entries, r.id) {
		if t.Status == rpc.TurnInterrupted {
			cut++
		}
	}
	compacted := len(r.thread.entries) > 0 && compactedSince(r.thread.entries)
	s.store(r.thread, entry{Turn: r.id, Item: &user})
	s.mu.Unlock()
	// From here on the model has seen it.
	s.log(map[string]any{
		"thread": r.thread.id, "turn": r.id, "clientId": clientID, "ephemeral": r.thread.ephemeral, "prompt": r.prompt, "before": len(before),
	})
	s.itemDone(r, user)
	s.grease()
	all := append(before, r.prompt)
	sc := r.script

	switch {
	case sc.has("die"), len(words(all, "die-always")) > 0, len(words(all, "die-twice")) > 0 && cut < 2:
		s.opt.Kill()
		return
	case sc.has("stall"), sc.has("stall-hard"), sc.has("stall-mute"), sc.has("stall-refuse"), sc.has("late"):
		s.stall(ctx, r)
		return
	}
	if err := s.failure(r, all, len(before) == 0, compacted); err != nil {
		s.notify("error", map[string]any{"error": err, "willRetry": false, "threadId": r.thread.id, "turnId": r.id})
		s.endTurn(r, rpc.TurnFailed, err, nil)
		return
	}
	s.noise(r)
	mute := len(words(all, "commentary-only")) > 0
	if sc.has("commentary") || mute {
		if !s.say(ctx, r, rpc.PhaseCommentary, "Looking into it.", 1, 0) {
			s.stopped(ctx, r)
			return
		}
	}
	if mute || len(words(all, "empty")) > 0 || (sc.has("empty-once") && len(words(before, "empty-once")) == 0) {
		s.endTurn(r, rpc.TurnCompleted, nil, nil)
		return
	}
	pieces, pause := 2, time.Duration(0)
	if n := sc.number("slow"); n > 0 {
		pieces, pause = n, time.Duration(s.number("STUB_STEP_MS", 25))*time.Millisecond
	}
	text := s.answer(ctx, r, all)
	if !s.say(ctx, r, rpc.PhaseFinalAnswer, text, pieces, pause) {
		s.stopped(ctx, r)
		return
	}
	s.endTurn(r, rpc.TurnCompleted, nil, []rpc.Item{{Type: rpc.ItemAgentMessage, ID: newID(), Text: text, Phase: rpc.PhaseFinalAnswer}})
}

func compactedSince(entries []entry) bool {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Compacted {
			return true
		}
	}
	return false
}

// stopped ends an interrupted turn. When the server itself ends, nothing is said.
func (s *Server) stopped(ctx context.Context, r *turn) {
	if ctx.Err() == nil {
		s.endTurn(r, rpc.TurnInterrupted, nil, nil)
	}
}

// stall says nothing until an interrupt is heard, which a deaf turn never does.
func (s *Server) stall(ctx context.Context, r *turn) {
	select {
	case <-ctx.Done():
		return
	case <-r.interrupt:
	}
	if !r.script.has("late") {
		s.endTurn(r, rpc.TurnInterrupted, nil, nil)
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(r.script.millis("late")):
	}
	if s.say(context.WithoutCancel(ctx), &turn{id: r.id, thread: r.thread}, rpc.PhaseFinalAnswer, "Late, but done.", 1, 0) {
		s.endTurn(r, rpc.TurnCompleted, nil, nil)
	}
}

// failure is the error that a prompt asks for.
func (s *Server) failure(r *turn, all []string, fresh, compacted bool) *rpc.TurnError {
	sc := r.script
	fail := func(kind, message string) *rpc.TurnError {
		return &rpc.TurnError{Message: message, CodexErrorInfo: rpc.ErrorInfo{Kind: kind}}
	}
	seen := func(word string) bool { return len(words(all, word)) > 1 }
	switch {
	case sc.has("model-error"):
		return fail(rpc.ErrInternalServerError, "unexpected status 500")
	case sc.has("unauthorized"):
		return fail(rpc.ErrUnauthorized, "unexpected status 401 Unauthorized")
	case sc.has("context-window") && !compacted && !fresh, sc.has("context-window-always") && !fresh:
		return fail(rpc.ErrContextWindowExceeded, "Codex ran out of room in the model's context window.")
	case sc.has("usage-limit"), sc.has("usage-limit-once") && !seen("usage-limit-once"):
		s.limits(sc)
		return fail(rpc.ErrUsageLimitExceeded, "You've hit your usage limit.")
	default:
		return nil
	}
}

func (s *Server) limits(sc script) {
	window := map[string]any{"usedPercent": 100, "windowDurationMins": 300, "resetsAt": nil}
	for _, word := range []string{"usage-limit", "usage-limit-once"} {
		if n := sc.number(word); n > 0 {
			window["resetsAt"] = time.Now().Add(time.Duration(n) * time.Second).Unix()
		}
	}
	s.notify("account/rateLimits/updated", map[string]any{"rateLimits": map[string]any{"limitId": "codex", "primary": window, "secondary": nil}})
}

// noise writes what a client has to tolerate in the middle of a turn.
func (s *Server) noise(r *turn) {
	if r.script.has("junk") {
		s.raw([]byte("\x1b[31mwarning:\x1b[0m a banner\n{\"half\": \n[1,2]\nnull\n\n"))
	}
	if r.script.has("sub-agent") {
		s.notify("turn/completed", map[string]any{"threadId": newID(), "turn": rpc.Turn{ID: newID(), Status: rpc.TurnCompleted, ItemsView: "notLoaded"}})
		s.notify("turn/completed", map[string]any{"threadId": r.thread.id, "turn": rpc.Turn{ID: newID(), Status: rpc.TurnFailed, ItemsView: "notLoaded"}})
	}
	if r.script.has("spawn") {
		spawn()
	}
}

// answer is the text of the turn's final message.
func (s *Server) answer(ctx context.Context, r *turn, all []string) string {
	sc := r.script
	switch {
	case sc.has("recall"):
		facts := words(all, "remember")
		if len(facts) == 0 {
			return "I remember nothing."
		}
		return "I remember: " + strings.Join(facts, ", ") + "."
	case sc.has("reply"):
		return sc["reply"]
	case sc.has("huge"):
		return strings.Repeat("x", sc.number("huge"))
	case sc.has("approve"):
		return "It was answered: " + s.ask(ctx, sc["approve"], s.approval(r))
	case sc.has("remember"):
		return "I will remember: " + sc["remember"] + "."
	default:
		if text := message(r.prompt); text != "" {
			return "You said: " + text
		}
		return "I have finished what was left."
	}
}

// approval are parameters that fit every kind of request well enough.
func (s *Server) approval(r *turn) map[string]any {
	return map[string]any{
		"threadId": r.thread.id, "turnId": r.id, "itemId": newID(), "startedAtMs": time.Now().UnixMilli(),
		"command": "rm -rf /", "cwd": r.thread.cwd, "reason": "because", "questions": []any{}, "serverName": "stub",
		"message": "may I?", "tool": "stub", "callId": newID(), "arguments": json.RawMessage(`{}`),
		"note": fmt.Sprintf("turn %s", r.id),
	}
}
