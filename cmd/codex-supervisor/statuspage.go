package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// statusWidth is the terminal that the page is made for.
const statusWidth = 80

// How many lines of a list the page shows; --json has them all.
const (
	shownQueue   = 5
	shownThreads = 10
)

// statusPage writes status for people.
type statusPage struct {
	w   io.Writer
	now time.Time
}

func (p statusPage) service(st control.Status) {
	line := fmt.Sprintf("codex-supervisor %s, pid %d, up %s", st.Version, st.PID, short(p.now.Sub(st.Started)))
	if st.Draining {
		line += ", DRAINING"
	}
	fmt.Fprintln(p.w, line)
	if st.Listen != "" {
		fmt.Fprintf(p.w, "metrics and health on http://%s\n", st.Listen)
	}
}

// field is one line of a work dir: a word, then what there is to say.
func (p statusPage) field(name, text string) {
	wrap(p.w, statusWidth, fmt.Sprintf("  %-10s", name), text)
}

func (p statusPage) workDir(w supervisor.WorkDirStatus) {
	fmt.Fprintf(p.w, "\n%s  %s\n", w.Name, w.Path)
	if w.Problem != "" {
		p.field("PROBLEM", w.Problem)
	}
	p.child(w.Child)
	p.field("policy", fmt.Sprintf("owners %s, envelope %s, %s", w.Sandbox, w.Envelope, guests(w.Guests)))
	queue := fmt.Sprintf("%d running, %d queued", len(w.Running), w.Queued)
	if w.Waiting > 0 {
		queue += fmt.Sprintf(", %d cut off and waiting to be settled", w.Waiting)
	}
	if w.Paused {
		queue += fmt.Sprintf("; PAUSED: `codex-supervisor resume %s`", w.Name)
	}
	p.field("tasks", queue)
	p.running(w)
	p.queue(w)
	p.threads(w.Threads)
}

func (p statusPage) child(c supervisor.ChildStatus) {
	parts := []string{fmt.Sprintf("%s for %s", c.State, short(p.now.Sub(c.Since)))}
	if c.Generation > 0 {
		parts = append(parts, fmt.Sprintf("generation %d", c.Generation))
	}
	if c.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", c.PID))
	}
	if c.Version != "" {
		parts = append(parts, "codex "+c.Version)
	}
	if !c.StartedAt.IsZero() {
		parts = append(parts, "up "+short(p.now.Sub(c.StartedAt)))
	}
	p.field("child", strings.Join(parts, ", "))
	if c.State != supervisor.ChildReady && c.Reason != "" {
		p.field("why", because(c.Reason, c.Detail))
	}
	if c.State == supervisor.ChildBackoff && !c.NextStart.IsZero() {
		p.field("next", "start in "+short(max(c.NextStart.Sub(p.now), time.Second)))
	}
	if !c.HeldUntil.IsZero() {
		p.field("held", "until "+c.HeldUntil.Local().Format(time.DateTime))
	}
	if c.Restarts > 0 {
		text := strconv.Itoa(c.Restarts)
		if c.LastRestart != "" {
			text += ", last: " + c.LastRestart.String()
		}
		if c.LastExit != "" {
			text += " (" + shown(c.LastExit, 200) + ")"
		}
		if c.CrashLooping {
			text += "; CRASH LOOP"
		}
		p.field("restarts", text)
	}
	if c.LastFailure != "" && c.State != supervisor.ChildReady && c.LastFailure != c.Reason {
		p.field("failed", because(c.LastFailure, c.LastFailureDetail))
	}
}

func because(why reason.Reason, detail string) string {
	if detail == "" {
		return why.String()
	}
	return why.String() + ": " + shown(detail, 300)
}

func guests(g supervisor.GuestStatus) string {
	text := "guests confined"
	if !g.Confined {
		text = "GUESTS REFUSED"
		if g.Reason != "" {
			text += ": " + g.Reason.String()
		}
		if g.Detail != "" {
			text += " (" + shown(g.Detail, 200) + ")"
		}
	}
	if g.Lost > 0 {
		text += fmt.Sprintf(", %d slots lost", g.Lost)
	}
	return text
}

func (p statusPage) running(w supervisor.WorkDirStatus) {
	if len(w.Running) == 0 {
		return
	}
	var rows [][]string
	for _, r := range w.Running {
		rows = append(rows, []string{
			shown(r.ID, 30), string(r.Tier), keyPrefix(r.Channel), strconv.Itoa(max(r.Attempt, 1)), dash(shown(r.Phase, 14)),
			ago(r.Started, p.now),
		})
	}
	fmt.Fprintln(p.w)
	table(p.w, "  ", "RUNNING | TIER | KEY | TRY | PHASE | FOR", rows)
}

func (p statusPage) queue(w supervisor.WorkDirStatus) {
	if len(w.Queue) == 0 {
		return
	}
	var rows [][]string
	slices.SortFunc(w.Queue, func(a, b supervisor.QueuedTask) int { return a.Since.Compare(b.Since) })
	for _, q := range w.Queue[:min(len(w.Queue), shownQueue)] {
		rows = append(rows, []string{shown(q.ID, 30), string(q.Tier), keyPrefix(q.Channel), q.Priority, ago(q.Since, p.now)})
	}
	fmt.Fprintln(p.w)
	table(p.w, "  ", "QUEUED | TIER | KEY | PRIORITY | FOR", rows)
	p.more(w.Queued-len(rows), "queued")
}

func (p statusPage) threads(list []supervisor.ThreadStatus) {
	var rows [][]string
	channel := 14
	if slices.ContainsFunc(list, func(t supervisor.ThreadStatus) bool { return t.Bound }) {
		channel = 11 // what the word takes
	}
	for _, t := range list {
		if t.ThreadID == "" || len(rows) == shownThreads {
			continue
		}
		turns := strconv.Itoa(t.Turns)
		if t.Bound {
			turns += " bound"
		}
		rows = append(rows, []string{shown(dash(t.Channel), channel), keyPrefix(t.Key), shown(t.ThreadID, 36), used(t.LastUsed, p.now), turns})
	}
	if len(rows) == 0 {
		fmt.Fprintln(p.w, "  no threads yet")
		return
	}
	fmt.Fprintln(p.w)
	table(p.w, "  ", "CHANNEL | KEY | THREAD | USED | TURNS", rows)
	owners := 0
	for _, t := range list {
		if t.ThreadID != "" {
			owners++
		}
	}
	p.more(owners-len(rows), "threads: codex-supervisor threads list")
}

func (p statusPage) more(n int, of string) {
	if n > 0 {
		fmt.Fprintf(p.w, "  … and %d more %s\n", n, of)
	}
}

// keyPrefix is enough of a channel's key to tell channels apart.
func keyPrefix(key string) string { return key[:min(len(key), 8)] }
