package stubserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// turn is one running turn.
type turn struct {
	id        string
	thread    *thread
	prompt    string
	script    script
	started   bool
	interrupt chan struct{} // closed by the first interrupt that is heard
	heard     bool
}

const maxInput = 1 << 20 // characters; more is refused as Codex refuses it

func (s *Server) turnStart(ctx context.Context, m incoming) {
	var p struct {
		ThreadID            string          `json:"threadId"`
		Input               []rpc.UserInput `json:"input"`
		ClientUserMessageID string          `json:"clientUserMessageId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil {
		s.fail(m.ID, -32600, "Invalid request: %v", err)
		return
	}
	t := s.threads[p.ThreadID]
	if t == nil {
		s.fail(m.ID, -32600, "thread not found: %s", p.ThreadID)
		return
	}
	var text []string
	for _, in := range p.Input {
		if in.Type == rpc.InputText {
			text = append(text, in.Text)
		}
	}
	prompt := strings.Join(text, "\n")
	if n := len([]rune(prompt)); n > maxInput {
		s.write(map[string]any{"error": map[string]any{
			"code": -32602, "message": fmt.Sprintf("Input exceeds the maximum length of %d characters.", maxInput),
			"data": map[string]any{"input_error_code": "input_too_large", "max_chars": maxInput, "actual_chars": n},
		}, "id": m.ID})
		return
	}
	if t.running != nil {
		// A second turn/start is merged into the running turn.
		s.reply(m.ID, rpc.TurnStartReply{Turn: rpc.Turn{ID: t.running.id, Status: rpc.TurnInProgress, ItemsView: "notLoaded"}})
		return
	}
	r := &turn{id: newID(), thread: t, prompt: prompt, script: parseScript(prompt), interrupt: make(chan struct{})}
	if r.script.has("die-before-reply") && s.once("die-before-reply") {
		s.opt.Kill()
		return
	}
	t.running = r
	s.reply(m.ID, rpc.TurnStartReply{Turn: rpc.Turn{ID: r.id, Status: rpc.TurnInProgress, ItemsView: "notLoaded"}})
	s.turns.Go(func() { s.runTurn(ctx, r, p.ClientUserMessageID) })
}

func (s *Server) interrupt(m incoming, threadID, turnID string) {
	t := s.threads[threadID]
	if t == nil || t.running == nil || (!t.running.started && turnID != "") {
		s.fail(m.ID, -32600, "no active turn to interrupt")
		return
	}
	r := t.running
	if turnID != "" && turnID != r.id {
		s.fail(m.ID, -32600, "expected active turn id %s but found %s", turnID, r.id)
		return
	}
	switch {
	case r.script.has("stall-mute"):
		return
	case r.script.has("stall-refuse"):
		s.fail(m.ID, -32603, "the turn cannot be interrupted")
		return
	}
	s.reply(m.ID, struct{}{})
	if !r.heard && !r.script.has("stall-hard") {
		r.heard = true
		close(r.interrupt)
	}
}

func (s *Server) compact(ctx context.Context, m incoming, threadID string) {
	t := s.threads[threadID]
	if t == nil {
		s.fail(m.ID, -32600, "thread not found: %s", threadID)
		return
	}
	s.reply(m.ID, struct{}{})
	r := &turn{id: newID(), thread: t, script: script{}, interrupt: make(chan struct{})}
	t.running = r
	s.turns.Go(func() {
		s.begin(r)
		item := map[string]any{"type": rpc.ItemContextCompaction, "id": newID()}
		s.itemDone(r, item)
		s.mu.Lock()
		s.store(t, entry{Compacted: true})
		s.mu.Unlock()
		s.endTurn(r, rpc.TurnCompleted, nil, nil)
	})
}

// begin says that a turn has started.
func (s *Server) begin(r *turn) {
	s.notify("thread/status/changed", map[string]any{"threadId": r.thread.id, "status": rpc.ThreadStatus{Type: rpc.ThreadActive}})
	<-time.After(5 * time.Millisecond) // Codex too has a moment in which it cannot be interrupted
	s.mu.Lock()
	r.started = true
	s.mu.Unlock()
	now := time.Now().Unix()
	s.notify("turn/started", map[string]any{"threadId": r.thread.id, "turn": rpc.Turn{
		ID: r.id, Status: rpc.TurnInProgress, StartedAt: &now, ItemsView: "notLoaded",
	}})
}

func (s *Server) itemEvent(r *turn, method string, item any) {
	at := "completedAtMs"
	if method == "item/started" {
		at = "startedAtMs"
	}
	s.notify(method, map[string]any{"item": item, "threadId": r.thread.id, "turnId": r.id, at: time.Now().UnixMilli()})
}

func (s *Server) itemDone(r *turn, item any) {
	s.itemEvent(r, "item/started", item)
	s.itemEvent(r, "item/completed", item)
}

// say streams an agent message in pieces and stores it.
func (s *Server) say(ctx context.Context, r *turn, phase, text string, pieces int, pause time.Duration) bool {
	it := rpc.Item{Type: rpc.ItemAgentMessage, ID: newID(), Phase: phase}
	s.itemEvent(r, "item/started", it)
	runes := []rune(text)
	pieces = max(pieces, 1)
	for i := range pieces {
		if pause > 0 && !s.wait(ctx, r, pause) {
			return false
		}
		part := string(runes[i*len(runes)/pieces : (i+1)*len(runes)/pieces])
		s.notify("item/agentMessage/delta", map[string]any{"threadId": r.thread.id, "turnId": r.id, "itemId": it.ID, "delta": part})
	}
	it.Text = text
	s.itemEvent(r, "item/completed", it)
	s.mu.Lock()
	s.store(r.thread, entry{Turn: r.id, Item: &it})
	s.mu.Unlock()
	return true
}

// wait pauses a turn; false means that it was interrupted or the server ends.
func (s *Server) wait(ctx context.Context, r *turn, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-r.interrupt:
		return false
	case <-time.After(d):
		return true
	}
}

func (s *Server) endTurn(r *turn, status string, turnErr *rpc.TurnError, items []rpc.Item) {
	s.mu.Lock()
	if len(r.thread.entries) > 0 {
		s.store(r.thread, entry{Turn: r.id, Status: status, Error: turnErr})
	}
	r.thread.running = nil
	s.mu.Unlock()
	if r.script.has("die-after") && s.once("die-after") {
		s.opt.Kill()
		return
	}
	if r.script.has("lost") {
		return
	}
	view := "notLoaded"
	if status == rpc.TurnCompleted {
		view = "summary"
	}
	usage := rpc.Tokens{Total: 15, Input: 10, Output: 5}
	s.mu.Lock()
	total := usage
	total.Total *= int64(max(len(prompts(r.thread.entries)), 1))
	s.mu.Unlock()
	s.notify("thread/tokenUsage/updated", map[string]any{"threadId": r.thread.id, "turnId": r.id, "tokenUsage": rpc.TokenUsage{Total: total, Last: usage}})
	s.notify("thread/status/changed", map[string]any{"threadId": r.thread.id, "status": rpc.ThreadStatus{Type: rpc.ThreadIdle}})
	at, ms := time.Now().Unix(), int64(1)
	done := map[string]any{"threadId": r.thread.id, "turn": rpc.Turn{
		ID: r.id, Status: status, Error: turnErr, Items: items, ItemsView: view, StartedAt: &at, CompletedAt: &at, DurationMs: &ms,
	}}
	s.notify("turn/completed", done)
	if r.script.has("twice") {
		s.notify("turn/completed", done)
	}
	s.grease()
}

// spawn leaves a process behind that no signal to our group reaches.
func spawn() {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() == nil {
		_ = cmd.Process.Release()
	}
}
