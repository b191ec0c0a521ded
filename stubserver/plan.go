package stubserver

import (
	"slices"
	"strings"
	"time"
)

// plan lists what a turn does, from its words.
func (s *Server) plan(r *turn) []step {
	sc := r.script
	steps := []step{
		{s.env.millis(envStart, 5), func() { s.begin(r) }},
		{0, func() { s.userMessage(r) }},
	}
	all := slices.Concat(r.before, []string{message(r.prompt) + " " + r.added})
	if s.dies(r, all) {
		return append(steps, step{do: func() { s.end(Killed) }})
	}
	if sc.has(Exit) && s.atMost(Exit, r) {
		return append(steps, step{do: func() { s.end(sc.number(Exit, 0, 0)) }})
	}
	for _, w := range []Word{Stall, StallHard, StallMute, StallRefuse, Late} {
		if sc.has(w) {
			return append(steps, step{do: func() { r.waiting = true }})
		}
	}
	for i := range sc.number(Retry, 0, 0) {
		steps = append(steps, step{s.env.millis(envStep, 25), func() { s.willRetry(r, i+1) }})
	}
	if failure, window := s.failure(r, all); failure != nil {
		return append(steps, step{do: func() {
			if window != nil {
				s.notify("account/rateLimits/updated", object{"rateLimits": limits(window)})
			}
			s.endTurn(r, turnFailed, failure)
		}})
	}
	steps = append(steps, step{do: func() { s.noise(r) }})
	mute := len(arguments(all, CommentaryOnly)) > 0
	if sc.has(Commentary) || mute {
		steps = append(steps, s.say(r, phaseCommentary, func() string { return "Looking into it." }, 1, 0, step{do: func() {}})...)
	}
	if mute || len(arguments(all, Empty)) > 0 || sc.has(EmptyOnce) && len(arguments(r.before, EmptyOnce)) == 0 {
		return append(steps, s.finish(r))
	}
	if sc.has(Approve) {
		steps = append(steps, step{do: func() { s.ask(r, sc[Approve]) }})
	}
	phase := phaseFinal
	if sc.has(NoPhase) {
		phase = ""
	}
	pieces, pause := 2, time.Duration(0)
	if sc.has(Slow) {
		pieces, pause = sc.number(Slow, 0, 10), sc.millis(Slow, 1, s.env.millis(envStep, 25))
	}
	return append(steps, s.say(r, phase, func() string { return answer(r, all) }, pieces, pause, s.finish(r))...)
}

func (s *Server) finish(r *turn) step {
	return step{do: func() { s.endTurn(r, turnCompleted, nil) }}
}

// dies says whether the process ends in the middle of this turn.
func (s *Server) dies(r *turn, all []string) bool {
	cut := 0
	for _, p := range turnsOf(r.thread) {
		if p.status == turnInterrupted {
			cut++
		}
	}
	return len(arguments(all, DieAlways)) > 0 || len(arguments(all, DieTwice)) > 0 && cut < 2 ||
		r.script.has(Die) && s.atMost(Die, r)
}

// userMessage stores the prompt and echoes it, as Codex does before it asks the
// model anything.
func (s *Server) userMessage(r *turn) {
	if r.script.has(DieBeforeMessage) && s.atMost(DieBeforeMessage, r) {
		s.end(Killed)
		return
	}
	s.storeStart(r)
	seen := s.turnLine(r, false)
	it := &item{Type: itemUser, ID: newID(), ClientID: r.clientID, Content: r.content}
	if it.Content == nil {
		it.Content = []object{}
	}
	s.itemStarted(r, it)
	s.itemDone(r, it)
	// From here on the model may see it. A line before the message is stored
	// would count prompts that a kill in between kept from it.
	s.log(seen)
	s.grease()
}

// say streams an agent message in pieces, stores it, and goes on with then.
func (s *Server) say(r *turn, phase string, text func() string, pieces int, pause time.Duration, then step) []step {
	it := &item{Type: itemAgent, ID: "msg_" + newID(), Phase: phase}
	start := step{do: func() {
		s.itemStarted(r, it)
		whole := text()
		runes := []rune(whole)
		pieces = max(pieces, 1)
		var deltas []step
		for i := range pieces {
			part := string(runes[i*len(runes)/pieces : (i+1)*len(runes)/pieces])
			deltas = append(deltas, step{pause, func() {
				s.tell(r.thread, "item/agentMessage/delta", object{"turnId": r.id, "itemId": it.ID, "delta": part})
			}})
		}
		deltas = append(deltas, step{do: func() {
			it.Text = whole
			if phase != phaseCommentary {
				r.final = it
			}
			s.itemDone(r, it)
		}})
		r.steps = append(deltas, r.steps...)
	}}
	return []step{start, then}
}

func (s *Server) willRetry(r *turn, n int) {
	s.tell(r.thread, "error", object{"turnId": r.id, "willRetry": true, "error": turnError(
		"Reconnecting... "+itoa(n)+"/5", object{"responseStreamDisconnected": object{"httpStatusCode": nil}})})
}

func turnError(message string, info any) object {
	return object{"message": message, "codexErrorInfo": info, "additionalDetails": nil, "misalignment": nil}
}

// failure is the error that a turn was asked for, and the window of the account
// that is told with it.
func (s *Server) failure(r *turn, all []string) (failure object, window any) {
	sc := r.script
	fresh := countItems(r.thread.entries, itemUser) == 0
	switch {
	case sc.has(Fail):
		kind, _, _ := strings.Cut(sc[Fail], " ")
		var info any = kind
		if status := sc.number(Fail, 1, 0); status > 0 {
			info = object{kind: object{"httpStatusCode": status}}
		}
		return turnError("The model said no.", info), nil
	case sc.has(ModelError):
		return turnError("We’re currently experiencing high demand, which may cause temporary errors.", "internalServerError"), nil
	case sc.has(Unauthorized):
		return turnError("unexpected status 401 Unauthorized", "unauthorized"), nil
	case sc.has(ContextWindow) && !fresh && !compacted(r.thread.entries), sc.has(ContextWindowAlways) && !fresh:
		return turnError("Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.", "contextWindowExceeded"), nil
	}
	for _, w := range []Word{UsageLimit, UsageLimitOnce} {
		if !sc.has(w) || w == UsageLimitOnce && len(arguments(r.before, w)) > 0 {
			continue
		}
		var resets any
		if n := sc.number(w, 0, 0); n > 0 {
			resets = time.Now().Add(time.Duration(n) * time.Second).Unix()
		}
		return turnError("You’ve hit your usage limit. Try again later.", "usageLimitExceeded"),
			object{"usedPercent": 100, "windowDurationMins": 300, "resetsAt": resets}
	}
	return nil, nil
}

func compacted(entries []entry) bool {
	for _, e := range entries {
		if e.Type == entryCompacted {
			return true
		}
	}
	return false
}

// noise is what a client has to tolerate in the middle of a turn.
func (s *Server) noise(r *turn) {
	s.tell(r.thread, "item/completed", object{"item": object{"type": "stubGreaseItem", "id": newID(), "text": "not for you"}, "turnId": r.id, "completedAtMs": time.Now().UnixMilli()})
	if r.script.has(Junk) {
		s.raw([]byte("\x1b[31mwarning:\x1b[0m a banner\n{\"half\": \n[1,2]\nnull\n\n"))
	}
	if r.script.has(SubAgent) {
		other := object{"threadId": newID(), "turnId": newID(), "completedAtMs": time.Now().UnixMilli()}
		it := item{Type: itemAgent, ID: newID(), Text: "A sub-agent's answer.", Phase: phaseFinal, Started: time.Now().UnixMilli()}
		other["item"] = it.wire()
		s.notify("item/completed", other)
		s.notify("turn/completed", object{"threadId": other["threadId"], "turn": past{id: other["turnId"].(string), status: turnCompleted, items: []item{it}}.wire(viewSummary)})
		s.tell(r.thread, "turn/completed", object{"turn": past{id: newID(), status: turnFailed}.wire(viewNone)})
	}
	if r.script.has(Spawn) {
		spawn()
	}
}

// answer is the text of the turn's final message.
func answer(r *turn, all []string) string {
	sc := r.script
	switch {
	case sc.has(Recall):
		facts := arguments(all, Remember)
		if len(facts) == 0 {
			return "I remember nothing."
		}
		return "I remember: " + strings.Join(facts, ", ") + "."
	case sc.has(Reply):
		return sc[Reply]
	case sc.has(Huge):
		return strings.Repeat("x", sc.number(Huge, 0, 1))
	case sc.has(Big):
		return strings.Repeat("x", sc.number(Big, 0, 1))
	case sc.has(Separators):
		return "one\u2028two\u2029three <&> \\u2028"
	case sc.has(Approve):
		return "It was answered: " + r.answer
	case sc.has(Remember):
		return "I will remember: " + sc[Remember] + "."
	}
	if said := plain(message(r.prompt)); said != "" {
		return "You said: " + said
	}
	return "I have finished what was left."
}
