package doctor

import (
	"path/filepath"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// served is what the running service says of a work dir, nil when it does not
// serve it.
func (d *doctor) served(w WorkDir) *supervisor.WorkDirStatus {
	if d.Service == nil {
		return nil
	}
	for i, s := range d.Service.WorkDirs {
		if real(s.Path) == real(w.Path) {
			return &d.Service.WorkDirs[i]
		}
	}
	return nil
}

// childVersion is the version of the service's child, "" when there is none.
func (d *doctor) childVersion(w WorkDir) string {
	if s := d.served(w); s != nil && s.Child.State == supervisor.ChildReady {
		return s.Child.Version
	}
	return ""
}

// guestsWanted says whether any tier but owners may run at all.
func guestsWanted(w WorkDir) bool {
	for _, t := range task.AllTiers() {
		if t != task.Owner && !w.Tiers[t].Disabled {
			return true
		}
	}
	return false
}

// service passes on what the running service says of itself.
func (d *doctor) service(w WorkDir) Check {
	if d.Service == nil {
		if d.ServiceErr != nil {
			return unseen(ServiceState, "it could not be asked")
		}
		return warn(ServiceState, "codex-supervisor run --work "+w.Path, "no service runs")
	}
	s := d.served(w)
	if s == nil {
		return warn(ServiceState, "`codex-supervisor status` shows which it serves", "the running service (pid %d) does not serve %s", d.Service.PID, w.Path)
	}
	child, detail := s.Child, oneLine(s.Child.Detail, 200)
	because := strings.TrimSpace(child.Reason.String() + " " + detail)
	const look = "codex-supervisor status; the service's log says more"
	switch {
	case s.Problem != "":
		return fail(ServiceState, look, "%s", oneLine(s.Problem, 300))
	case child.CrashLooping:
		return fail(ServiceState, look, "the child dies again and again: %s", because)
	case child.State == supervisor.ChildHeld && !child.HeldUntil.IsZero():
		return fail(ServiceState, "wait, or use another account", "no turns until %s: %s", child.HeldUntil.Local().Format("2006-01-02 15:04"), because)
	case child.State == supervisor.ChildHeld || child.State == supervisor.ChildBackoff || child.State == supervisor.ChildDown:
		return fail(ServiceState, look, "the child is %s: %s", child.State, because)
	case child.State != supervisor.ChildReady:
		return warn(ServiceState, "ask again in a minute", "the child is %s: %s", child.State, because)
	case !s.Guests.Confined && guestsWanted(w):
		return fail(ServiceState, "see confinement", "guests are refused: %s", strings.TrimSpace(s.Guests.Reason.String()+" "+oneLine(s.Guests.Detail, 200)))
	case s.Paused:
		return warn(ServiceState, "codex-supervisor resume "+s.Name, "paused")
	}
	state := "running, pid %d, child ready"
	if real(s.State) != real(w.State) {
		return warn(ServiceState, "give doctor the flags or the file that the service was given", state+", but with the state dir "+filepath.Clean(s.State), d.Service.PID)
	}
	return ok(ServiceState, state+", guests "+confinedWord(s.Guests.Confined), d.Service.PID)
}

func confinedWord(confined bool) string {
	if confined {
		return "confined"
	}
	return "switched off"
}
