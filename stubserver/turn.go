package stubserver

import (
	"fmt"
	"strings"
	"time"
)

// maxInput is the longest prompt in characters (codex app-server 0.171.0, measured).
const maxInput = 1 << 20

// turn is one running turn: what is left of its plan, and where it stands.
type turn struct {
	id       string
	thread   *thread
	clientID string
	content  []object
	prompt   string
	script   script
	added    string   // what the script file added to the words
	before   []string // what the user said in earlier turns
	startAt  time.Time
	started  bool // turn/started was sent: from here on it can be interrupted
	stored   bool
	heard    bool // an interrupt was taken in

	steps    []step
	waiting  bool // for an answer, or for ever
	sleeping bool // until an alarm goes off
	epoch    int  // what was planned in an earlier one does not happen
	asked    *ask
	answer   string
	final    *item // the last final answer
}

// step is one thing to do, after a wait.
type step struct {
	wait time.Duration
	do   func()
}

// run does what is due of a turn's plan.
func (s *Server) run(r *turn) {
	for len(r.steps) > 0 && !r.waiting && !r.sleeping && !s.ended {
		next := r.steps[0]
		r.steps = r.steps[1:]
		if next.wait > 0 {
			epoch := r.epoch
			r.sleeping = true
			s.clock.after(next.wait, func() {
				if r.epoch == epoch {
					r.sleeping = false
					next.do()
					s.run(r)
				}
			})
			return
		}
		next.do()
	}
}

// replan drops what was planned for a turn and has it do something else.
func (s *Server) replan(r *turn, steps ...step) {
	r.epoch++
	r.waiting, r.sleeping = false, false
	r.steps = steps
	s.run(r)
}

func (s *Server) turnStart(m incoming) {
	var p struct {
		Input    []object `json:"input"`
		ClientID string   `json:"clientUserMessageId"`
	}
	f := s.gated(m, "permissions")
	if f == nil {
		f = required(m.Params, "threadId", "input")
	}
	if f == nil {
		f = decodeParams(m.Params, &p)
	}
	var prompt string
	if f == nil {
		prompt, f = inputText(p.Input)
	}
	var t *thread
	if f == nil {
		t, f = s.loaded(m)
	}
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	r := &turn{id: newID(), thread: t, clientID: p.ClientID, content: p.Input, prompt: prompt, before: texts(t.entries), startAt: time.Now()}
	if t.running != nil {
		s.log(s.turnLine(r, true))
		s.reply(m.ID, object{"turn": past{id: t.running.id, status: turnRunning}.wire(viewNone)})
		return // merged into the running turn, whose id it gets
	}
	said := message(prompt)
	r.added = s.playFor(said)
	r.script = parseScript(said + " " + r.added)
	if r.script.has(DieBeforeReply) && s.atMost(DieBeforeReply, r) {
		s.end(Killed)
		return
	}
	t.running, t.failed = r, false
	s.tell(t, "warning", object{"message": "Model metadata for `" + stubModel + "` not found. Defaulting to fallback metadata."})
	s.reply(m.ID, object{"turn": past{id: r.id, status: turnRunning}.wire(viewNone)})
	r.steps = s.plan(r)
	s.run(r)
}

// inputText checks a prompt and returns its text. Text gets the field that
// Codex adds to it.
func inputText(input []object) (string, *fault) {
	var parts []string
	for _, in := range input {
		kind, _ := in["type"].(string)
		if f := variant(kind, "text", "image", "localImage", "audio", "localAudio", "skill", "mention"); f != nil {
			return "", f
		}
		if kind == "text" {
			if _, ok := in["text_elements"]; !ok {
				in["text_elements"] = []any{}
			}
			text, _ := in["text"].(string)
			parts = append(parts, text)
		}
	}
	prompt := strings.Join(parts, "\n")
	if n := len([]rune(prompt)); n > maxInput {
		return "", &fault{
			codeParams, fmt.Sprintf("Input exceeds the maximum length of %d characters.", maxInput),
			object{"input_error_code": "input_too_large", "max_chars": maxInput, "actual_chars": n},
		}
	}
	return prompt, nil
}

func (s *Server) interrupt(m incoming) {
	f := required(m.Params, "threadId", "turnId")
	var p struct {
		TurnID string `json:"turnId"`
	}
	if f == nil {
		f = decodeParams(m.Params, &p)
	}
	var t *thread
	if f == nil {
		t, f = s.loaded(m)
	}
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	r := t.running
	switch {
	case r == nil, !r.started && p.TurnID != "":
		s.fail(m.ID, s.noActiveTurn(t, p.TurnID))
		return
	case p.TurnID != "" && p.TurnID != r.id:
		s.fail(m.ID, invalid("expected active turn id %s but found %s", p.TurnID, r.id))
		return
	case r.script.has(StallMute):
		return
	case r.script.has(StallRefuse):
		s.fail(m.ID, refuse(codeInternal, "the turn cannot be interrupted"))
		return
	}
	s.reply(m.ID, object{})
	if r.heard || r.script.has(StallHard) {
		return
	}
	r.heard = true
	if r.started { // else it ends as soon as it has started
		s.stop(r)
	}
}

// noActiveTurn is what an interrupt gets that came too early or too late. Up to
// 0.168.0 an early one names the thread's previous turn (measured).
func (s *Server) noActiveTurn(t *thread, turnID string) *fault {
	var major, minor int
	_, _ = fmt.Sscanf(s.env.version(), "%d.%d.", &major, &minor)
	if turns := turnsOf(t); t.running != nil && len(turns) > 0 && major == 0 && minor < 169 {
		return invalid("expected active turn id %s but found %s", turnID, turns[len(turns)-1].id)
	}
	return invalid("no active turn to interrupt")
}

// stop ends a turn that was interrupted, or has it end late.
func (s *Server) stop(r *turn) {
	asked := r.asked
	r.asked = nil
	if r.script.has(Late) {
		s.replan(r, append([]step{{r.script.millis(Late, 0, 0), func() {}}}, s.say(r, phaseFinal, func() string { return "Late, but done." }, 1, 0, s.finish(r))...)...)
	} else {
		s.replan(r, step{do: func() { s.endTurn(r, turnInterrupted, nil) }})
	}
	if asked != nil {
		delete(s.asks, asked.id)
		s.tell(r.thread, "serverRequest/resolved", object{"requestId": asked.id})
	}
}

func (s *Server) compactStart(m incoming) {
	t, f := s.loaded(m)
	if f != nil {
		s.fail(m.ID, f)
		return
	}
	s.reply(m.ID, object{})
	t.compacting++
	s.compact(t)
}

// compact runs the next compaction that waits, as a turn of its own.
func (s *Server) compact(t *thread) {
	if t.running != nil || t.compacting == 0 {
		return
	}
	t.compacting--
	r := &turn{id: newID(), thread: t, script: script{}, startAt: time.Now()}
	t.running = r
	it := item{Type: itemCompaction, ID: newID()}
	r.steps = []step{
		{s.env.millis(envStart, 5), func() { s.begin(r) }},
		{0, func() { s.itemStarted(r, &it) }},
		{time.Millisecond, func() {
			s.itemDone(r, &it)
			s.keep(t, entry{Type: entryCompacted, Turn: r.id})
			s.endTurn(r, turnCompleted, nil)
		}},
	}
	s.run(r)
}

// keep stores what a thread without history would not.
func (s *Server) keep(t *thread, e entry) {
	if len(t.entries) > 0 {
		s.store(t, e)
	}
}

// begin says that a turn has started.
func (s *Server) begin(r *turn) {
	r.started = true
	s.tell(r.thread, "thread/status/changed", object{"status": s.status(r.thread)})
	if len(r.thread.entries) > 0 {
		s.storeStart(r)
	}
	s.tell(r.thread, "turn/started", object{"turn": past{id: r.id, status: turnRunning, started: r.startAt.UnixMilli()}.wire(viewNone)})
	if r.heard {
		s.stop(r)
	}
}

func (s *Server) storeStart(r *turn) {
	if !r.stored {
		r.stored = true
		s.store(r.thread, entry{Type: entryStarted, Turn: r.id, Script: r.added, Started: r.startAt.UnixMilli()})
	}
}

func (s *Server) itemStarted(r *turn, it *item) {
	it.Started = time.Now().UnixMilli()
	s.tell(r.thread, "item/started", object{"item": it.wire(), "turnId": r.id, "startedAtMs": it.Started})
}

// itemDone completes an item and stores it.
func (s *Server) itemDone(r *turn, it *item) {
	it.Completed = time.Now().UnixMilli()
	s.keep(r.thread, entry{Type: entryItem, Turn: r.id, Item: it})
	s.tell(r.thread, "item/completed", object{"item": it.wire(), "turnId": r.id, "contentTokenCount": nil, "completedAtMs": it.Completed})
}

// endTurn stores the end of a turn and tells it, in Codex's order.
func (s *Server) endTurn(r *turn, status string, failure object) {
	t, now := r.thread, time.Now().UnixMilli()
	r.epoch++
	r.steps = nil
	s.keep(t, entry{Type: entryEnded, Turn: r.id, Status: status, Error: failure, Completed: now})
	t.running, t.failed = nil, status == turnFailed
	switch {
	case r.script.has(DieAfter) && s.atMost(DieAfter, r):
		s.end(Killed)
		return
	case r.script.has(Lost):
		return
	}
	s.tellUsage(r)
	s.notify("account/rateLimits/updated", object{"rateLimits": limits(nil)})
	if status == turnCompleted && r.final != nil && !t.ephemeral {
		s.tell(t, "thread/readState/changed", object{"readState": object{"firstUnread": object{"type": "turn", "turnId": r.id}, "revision": newID()}})
	}
	s.tell(t, "thread/status/changed", object{"status": s.status(t)})
	if failure != nil {
		s.tell(t, "error", object{"error": failure, "willRetry": false, "turnId": r.id})
	}
	done, view := past{id: r.id, status: status, err: failure, started: r.startAt.UnixMilli(), completed: now}, viewNone
	if status == turnCompleted && r.final != nil {
		done.items, view = []item{*r.final}, viewSummary
	}
	s.tell(t, "turn/completed", object{"turn": done.wire(view)})
	if r.script.has(Twice) {
		s.tell(t, "turn/completed", object{"turn": done.wire(view)})
	}
	s.grease()
	s.compact(t)
	if !t.subscribed {
		s.unloadLater(t)
	}
}

// What one turn costs, in tokens.
const (
	inputTokens  = 10
	outputTokens = 5
)

func (s *Server) tellUsage(r *turn) {
	tokens := func(turns int) object {
		return object{
			"totalTokens": turns * (inputTokens + outputTokens), "inputTokens": turns * inputTokens, "outputTokens": turns * outputTokens,
			"cachedInputTokens": 0, "cacheWriteInputTokens": 0, "reasoningOutputTokens": 0,
		}
	}
	s.tell(r.thread, "thread/tokenUsage/updated", object{"turnId": r.id, "tokenUsage": object{
		"total": tokens(max(countItems(r.thread.entries, itemUser), 1)), "last": tokens(1), "modelContextWindow": 258400,
	}})
}

// countItems counts a thread's items of one type; "" is all.
func countItems(entries []entry, kind string) int {
	n := 0
	for _, e := range entries {
		if e.Item != nil && (kind == "" || e.Item.Type == kind) {
			n++
		}
	}
	return n
}

// limits are the account's; the update is sparse, null meaning "not in this one".
func limits(primary any) object {
	return object{
		"limitId": "codex", "limitName": nil, "normalModelSlug": nil, "primary": primary, "secondary": nil, "credits": nil,
		"individualLimit": nil, "spendControlReached": nil, "planType": nil, "rateLimitReachedType": nil,
	}
}
