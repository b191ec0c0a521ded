package supervisor_test

import (
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// others are the tiers that are not the owner's.
var others = []task.Tier{task.Team, task.Guest, task.Ambient}

// refused asserts that a task was answered with a refusal and that no model saw
// a word of it.
func (h *house) refused(t *testing.T, m message, why reason.Reason, detail string) {
	t.Helper()
	m.text = "never-to-be-seen"
	got, row := h.ask(m)
	endedAs(t, row, store.Refused, why)
	contains(t, row.Detail, detail)
	if len(row.Attempts) != 0 || h.asked("never-to-be-seen") != 0 {
		t.Errorf("it was run: %+v", row.Attempts)
	}
	if strings.TrimSpace(got) == "" || strings.ContainsAny(got, "_{}") {
		t.Errorf("%q is not plain words", got)
	}
}

// What Codex says is in force is compared with what was asked for, before a
// turn: no word of a task goes to a thread that differs.
func TestTier_ReplyIsChecked(t *testing.T) {
	for _, c := range []struct {
		bent, field string
		owner       string // what an owner's refusal says; "" when it runs
	}{
		{"profile", "activePermissionProfile.id", "activePermissionProfile.id"},
		{"network", "sandbox.networkAccess", "sandbox.networkAccess"},
		{"write", "sandbox.type", "sandbox.type"},
		{"durable", "thread.ephemeral", ""},
		{"instructions", "instructionSources", ""},
	} {
		t.Run(c.bent, func(t *testing.T) {
			h := startHouse(t, func(o *supervisor.WorkDirOptions) { o.Env = append(o.Env, "STUB_POLICY="+c.bent) })
			for _, tier := range others {
				h.refused(t, message{channel: string(tier), tier: tier}, reason.PolicyUnverified, c.field)
			}
			if n := h.metric("codex_supervisor_tasks_total"); n != float64(len(others)) {
				t.Errorf("%v tasks counted, want %d", n, len(others))
			}
			if c.owner != "" {
				h.refused(t, message{channel: "a", tier: task.Owner}, reason.PolicyUnverified, c.owner)
			} else {
				contains(t, h.owner("a", "hello"), "hello")
			}
		})
	}
}

// The stub runs no commands, so to a service that takes it for Codex a probe
// never finds what it has to find.
func TestTier_NoProofNoGuests(t *testing.T) {
	for _, c := range []struct{ exec, detail string }{
		{"", "did not run to its end"},
		{"open", "did not run to its end"},
		{"error", "Resource temporarily unavailable"},
	} {
		t.Run("exec="+c.exec, func(t *testing.T) {
			h := startHouse(t, func(o *supervisor.WorkDirOptions) {
				o.StubChild = false
				o.Env = append(o.Env, "STUB_EXEC="+c.exec)
			})
			for _, tier := range others {
				h.refused(t, message{channel: string(tier), tier: tier}, reason.GuestsUnconfined, c.detail)
			}
			if n := len(h.startedThreads()); n != 0 {
				t.Errorf("%d threads were started", n)
			}
			if v := h.metric("codex_supervisor_guest_confinement_ok"); v != 0 {
				t.Errorf("guest_confinement_ok is %v", v)
			}
			if g := h.sup.Status().WorkDirs[0].Guests; g.Confined || g.Reason != reason.GuestsUnconfined || g.Detail == "" {
				t.Errorf("status says %+v", g)
			}
			contains(t, h.owner("a", "hello"), "hello")
		})
	}
}

// A probe that has not ended keeps guests waiting, and owners not.
func TestTier_GuestsWaitForTheProof(t *testing.T) {
	h := startHouse(t, func(o *supervisor.WorkDirOptions) {
		o.StubChild = false
		o.Env = append(o.Env, "STUB_EXEC=mute")
	})
	for _, tier := range others {
		h.drop(message{id: "task-" + string(tier), channel: "a", tier: tier, text: "never-to-be-seen"})
	}
	for _, text := range []string{"one", "two", "three"} {
		contains(t, h.owner("a", text), text)
	}
	if n := len(h.startedThreads()); n != 1 {
		t.Errorf("%d threads, want the owner's", n)
	}
	if w := h.sup.Status().WorkDirs[0]; w.Guests.Confined || w.Queued != len(others) {
		t.Errorf("confined %t with %d waiting, want false with %d", w.Guests.Confined, w.Queued, len(others))
	}
}
