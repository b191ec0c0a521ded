package supervisor

import (
	"fmt"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// taskFacts is what the work dir's goroutine knows of a task.
type taskFacts struct {
	where    string // queued, running, waiting; "" = not in hand
	shown    *RunningTask
	ahead    string // what its flow waits for
	deferred bool
	tries    int
	after    time.Time
	tier     task.Tier
}

func (w *WorkDir) factsOf(id string) taskFacts {
	if r := w.running[id]; r != nil {
		return taskFacts{where: "running", shown: r.shown.Load(), tier: r.item.Tier}
	}
	if wt := w.waiting[id]; wt != nil {
		return taskFacts{where: "waiting", deferred: wt.deferred, tries: wt.tries, after: wt.after, tier: wt.item.Tier}
	}
	if !w.queue.queued(id) {
		return taskFacts{}
	}
	it := w.queue.find(id)
	f := taskFacts{where: "queued", tier: it.Tier}
	for other, key := range w.queue.running {
		if key == flowOf(it) {
			f.ahead = other
		}
	}
	for other, wt := range w.waiting {
		if wt.reserved && flowOf(wt.item) == flowOf(it) {
			f.ahead = other
		}
	}
	return f
}

// explain says in plain words where a task is and why.
func explain(f taskFacts, st TaskStatus, w WorkDirStatus, now time.Time) (where string, lines []string) {
	switch f.where {
	case "running":
		s := f.shown
		lines = append(lines, fmt.Sprintf("It has been running for %[3]s (attempt %[1]d, %[2]s); its turn may take %[4]s.",
			max(s.Attempt, 1), s.Phase, plainDuration(now.Sub(s.Started)), plainDuration(s.Cap)))
	case "waiting":
		switch {
		case f.tries > 0:
			lines = append(lines, fmt.Sprintf("Its answer is known but could not be written; tried %d times, next try in %s.", f.tries, plainDuration(max(f.after.Sub(now), time.Second))))
		case f.deferred:
			lines = append(lines, "It was begun and goes on when the hold on the child ends.")
		default:
			lines = append(lines, "It was cut off and is settled as soon as the child is back: its thread is asked what became of it.")
		}
		lines = append(lines, childLine(w.Child, now)...)
	case "queued":
		if f.ahead != "" {
			lines = append(lines, "It waits for "+f.ahead+" of the same channel; one task runs at a time in a channel.")
		}
		lines = append(lines, childLine(w.Child, now)...)
		switch {
		case w.Paused:
			lines = append(lines, "The work dir is paused; `codex-supervisor resume "+w.Name+"` lets tasks run again.")
		case f.tier != task.Owner && !w.Guests.Confined:
			lines = append(lines, fmt.Sprintf("Messages of guests wait or are refused: %s %s", w.Guests.Reason, w.Guests.Detail))
		case f.ahead == "" && w.Child.State == ChildReady:
			lines = append(lines, fmt.Sprintf("It waits for a free slot; %d are running, %d are queued.", len(w.Running), w.Queued))
		}
	}
	if f.where != "" {
		return f.where, append(lines, attemptLines(st.Row)...)
	}
	if st.Row != nil {
		r := st.Row
		lines = append(lines, fmt.Sprintf("It ended at %s: %s (%s).", r.SettledAt.Local().Format(time.DateTime), r.Outcome, r.Reason))
		if r.Detail != "" {
			lines = append(lines, "Detail: "+r.Detail)
		}
		if r.Outcome == store.Skipped {
			lines = append(lines, "It was older than max_backlog_age on the first start; `codex-supervisor task retry "+r.TaskID+"` runs it.")
		}
		return string(r.State), append(lines, attemptLines(r)...)
	}
	if st.Result != "" {
		return "answered", []string{"A result of another writer lies in " + st.Result + ", so it is not run."}
	}
	return "seen", []string{"Its file is there and has not been queued yet; the inbox looks again within 30 seconds."}
}

func childLine(c ChildStatus, now time.Time) []string {
	switch c.State {
	case ChildReady:
		return nil
	case ChildHeld:
		line := fmt.Sprintf("The child takes no new turns: %s %s", c.Reason, c.Detail)
		if !c.HeldUntil.IsZero() {
			line += fmt.Sprintf(" (until %s)", c.HeldUntil.Local().Format(time.DateTime))
		}
		return []string{line}
	case ChildBackoff:
		return []string{fmt.Sprintf("The child is down (%s %s) and is started again in %s.", c.Reason, c.Detail, plainDuration(max(c.NextStart.Sub(now), time.Second)))}
	case ChildDown, ChildStarting, ChildDraining, ChildStopping:
		return []string{fmt.Sprintf("The child is %s.", c.State)}
	default:
		return nil
	}
}

func attemptLines(r *store.Row) []string {
	if r == nil {
		return nil
	}
	var lines []string
	for _, a := range r.Attempts {
		line := fmt.Sprintf("Attempt %d (%s) began at %s on thread %s, generation %d", a.N, a.Kind, a.Began.Local().Format(time.DateTime), a.ThreadID, a.Generation)
		switch {
		case !a.Ended.IsZero():
			line += fmt.Sprintf(" and took %s", plainDuration(max(a.Ended.Sub(a.Began), time.Millisecond)))
		default:
			line += " and was cut off or still runs"
		}
		if a.Stopping != "" {
			line += fmt.Sprintf("; it was stopped: %s", a.Stopping)
		}
		lines = append(lines, line+".")
	}
	if r.Deaths > 0 {
		lines = append(lines, fmt.Sprintf("The child died %d times while it ran alone.", r.Deaths))
	}
	for _, d := range r.Declined {
		lines = append(lines, "Codex asked for "+d.Method+" and was declined.")
	}
	return lines
}
