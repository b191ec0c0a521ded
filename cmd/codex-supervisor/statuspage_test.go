package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// A bad day, with the longest of everything, is still read in 80 columns.
func TestStatusPage_ABadDay(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.Local)
	key := strings.Repeat("0123456789abcdef", 4)
	w := supervisor.WorkDirStatus{
		Name: "garden", Path: "/srv/garden", Sandbox: "danger-full-access", Envelope: task.PolicyStrict, Paused: true, Waiting: 2, Queued: 63,
		Problem: "results cannot be written: no space left on device",
		Guests:  supervisor.GuestStatus{Reason: reason.GuestsUnconfined, Detail: "the canary could read /srv/garden/secret from its room", Lost: 1},
		Child: supervisor.ChildStatus{
			State: supervisor.ChildBackoff, Reason: reason.ChildExited, Since: now.Add(-90 * time.Second), Generation: 1234567,
			Detail:   "it said: " + strings.Repeat("something went wrong ", 9) + "\x1b[2J",
			Restarts: 1234, LastRestart: reason.ChildUnresponsive, LastExit: "signal: killed", CrashLooping: true,
			NextStart: now.Add(42 * time.Second), LastFailure: reason.ChildStartTimeout, LastFailureDetail: "initialize",
			HeldUntil: now.Add(time.Hour),
		},
	}
	for i := range 7 {
		w.Queue = append(w.Queue, supervisor.QueuedTask{ID: fmt.Sprintf("task-20261201T022406-xknotud%02d", i), Tier: task.Ambient, Channel: key, Priority: "urgent", Since: now.Add(-time.Duration(i) * time.Minute)})
	}
	w.Running = []supervisor.RunningTask{{
		ID: strings.Repeat("i", 90), Tier: task.Ambient, Channel: key, Attempt: 12, Phase: "interrupting now!", Started: now.Add(-47 * time.Hour),
	}}
	for i := range 13 {
		w.Threads = append(w.Threads, supervisor.ThreadStatus{
			Channel: fmt.Sprintf("!%d%s:example.org", i, strings.Repeat("x", 60)), Key: key, ThreadID: "0199a213-81c0-7800-8aa1-bbab2a035a53",
			Turns: 12, Bound: i == 0, LastUsed: now.Add(-59 * time.Minute),
		})
	}
	w.Threads = append(w.Threads, supervisor.ThreadStatus{Channel: "guests only", Key: key})
	var b strings.Builder
	page := statusPage{w: &b, now: now}
	page.service(control.Status{Status: supervisor.Status{Version: "v1.2.3", PID: 7, Started: now.Add(-time.Hour), Draining: true}, Listen: "127.0.0.1:9464"})
	page.workDir(w)
	text := b.String()
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > statusWidth {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	flat := strings.Join(strings.Fields(text), " ")
	for _, want := range []string{
		"codex-supervisor v1.2.3, pid 7, up 1h, DRAINING",
		"metrics and health on http://127.0.0.1:9464",
		"PROBLEM results cannot be written",
		"child backoff for 1m30s, generation 1234567",
		"why exited: it said: something went wrong",
		"next start in 42s",
		"held until 2026-01-02 13:00:00",
		"restarts 1234, last: unresponsive (signal: killed); CRASH LOOP",
		"failed start_timeout: initialize",
		"owners danger-full-access, envelope strict, GUESTS REFUSED: guests_unconfined (the canary could read",
		", 1 slots lost",
		"1 running, 63 queued, 2 cut off and waiting to be settled; PAUSED: `codex-supervisor resume garden`",
		"ambient 01234567 12 interrupting … 47h",
		"task-20261201T022406-xknotud06 ambient 01234567 urgent 6m",
		"… and 58 more queued",
		"0199a213-81c0-7800-8aa1-bbab2a035a53 59m ago 12 bound",
		"… and 3 more threads: codex-supervisor threads list",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q", want)
		}
	}
	if strings.Contains(text, "\x1b") || strings.Contains(text, "guests only") || strings.Contains(text, "xknotud00") {
		t.Error("shows what it must not")
	}
	if t.Failed() {
		t.Log("\n" + text)
	}
}
