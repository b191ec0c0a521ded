package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	codex string // "" = the built-in stub
	keep  bool
}

func newDemoCommand(env *environment) *cobra.Command {
	o := &demoOptions{}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the main job on a throw-away work dir",
		Long: `Show the main job: owners who are remembered, a guest who is not, a turn that
overruns, one that ignores its interrupt, and an app-server that is killed in the
middle of its work. Needs no login, no network and no answers; takes under 30 s.

The child is the built-in stub. With --codex it is a real Codex binary, whose
model is a scripted one on loopback.`,
		Example: "  codex-supervisor demo\n  codex-supervisor demo --codex $(which codex)",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return runDemo(c.Context(), o, env)
		},
	}
	c.Flags().StringVar(&o.codex, "codex", "", "a real, native codex `program` to run as the child")
	c.Flags().BoolVar(&o.keep, "keep", false, "keep the work dir and say where it is")
	return c
}

// demo is one run of the demonstration.
type demo struct {
	out     io.Writer
	began   time.Time
	sup     *supervisor.Supervisor
	opt     supervisor.WorkDirOptions
	real    bool
	names   map[string]string // task id → name shown
	rows    []store.Row
	mu      sync.Mutex
	events  []supervisor.Event
	woken   chan struct{}
	counter int
}

// Times of the demo's house: short, so that a stalled turn is seen to end.
const (
	demoTurnTimeout = 3 * time.Second
	demoGrace       = time.Second
	demoPatience    = 25 * time.Second
)

func runDemo(ctx context.Context, o *demoOptions, env *environment) (err error) {
	dir, err := os.MkdirTemp("", "codex-supervisor-demo-")
	if err != nil {
		return fmt.Errorf("make a work dir: %w", err)
	}
	if o.keep {
		fmt.Fprintln(env.stdout, "work dir:", dir)
	} else {
		defer os.RemoveAll(dir)
	}
	d := &demo{out: env.stdout, began: time.Now(), names: map[string]string{}, woken: make(chan struct{}, 1), real: o.codex != ""}
	d.opt = supervisor.WorkDirOptions{
		Name: "demo", Path: filepath.Join(dir, "work"), Tasks: filepath.Join(dir, "work", "tasks"),
		Results: filepath.Join(dir, "work", "results"), State: filepath.Join(dir, "state"),
		KeyFile:       filepath.Join(dir, "work", "state", "auth", "task-hmac.key"),
		CodexHomeFrom: filepath.Join(dir, "user-codex-home"),
		TurnTimeout:   demoTurnTimeout, InterruptGrace: demoGrace, ReplaceDrain: time.Second,
		// The demo shows a guest to root too: what it would protect is a
		// temporary directory made for the demo.
		UnsafeRootGuests: true,
	}
	for _, p := range []string{d.opt.Tasks, d.opt.Results, d.opt.CodexHomeFrom} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			return fmt.Errorf("make %q: %w", p, err)
		}
	}
	child := "the built-in stub (it only plays Codex: nothing here is confined by it)"
	if d.real {
		child = o.codex
		d.opt.Codex = []string{o.codex}
		m, err := model.New(model.Options{})
		if err != nil {
			return fmt.Errorf("start the scripted model: %w", err)
		}
		defer m.Close()
		if err := os.WriteFile(filepath.Join(d.opt.CodexHomeFrom, "config.toml"), []byte(m.ConfigTOML()), 0o600); err != nil {
			return fmt.Errorf("write config.toml: %w", err)
		}
	} else {
		exe, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
		d.opt.Codex, d.opt.StubChild = []string{exe, "stub"}, true
	}
	fmt.Fprintf(d.out, "child: %s\n\n", child)
	d.sup, err = supervisor.New(supervisor.Options{
		WorkDirs: []supervisor.WorkDirOptions{d.opt}, DrainTimeout: 2 * time.Second, Version: version(),
		Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler), OnEvent: d.saw,
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- d.sup.Serve(ctx) }() // waited for below
	err = d.story()
	stop()
	if serveErr := <-done; err == nil {
		err = serveErr
	}
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d.table()
	return nil
}

// story is what the demo shows. Each step asserts what it claims.
func (d *demo) story() error {
	if _, err := d.await("the child", func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventChild && e.Child.State == supervisor.ChildReady
	}); err != nil {
		return err
	}
	d.heading("An owner's second message remembers the first")
	if _, err := d.ask("garden", task.Owner, "[[remember ferns]] Remember this word: ferns"); err != nil {
		return err
	}
	text, err := d.ask("garden", task.Owner, "[[recall]] Which word did I ask you to remember?")
	if err != nil {
		return err
	}
	if !strings.Contains(text, "ferns") {
		return fmt.Errorf("the owner was not remembered: %q", text)
	}

	d.heading("A guest in the same room remembers nothing")
	if text, err = d.ask("garden", task.Guest, "[[recall]] Which word were you asked to remember?"); err != nil {
		return err
	}
	if strings.Contains(text, "ferns") {
		return fmt.Errorf("the guest saw the owner's word: %q", text)
	}

	d.heading("A stalled turn is interrupted")
	if _, err := d.ask("kitchen", task.Owner, "[[remember basil]] Remember this word: basil"); err != nil {
		return err
	}
	id := d.drop("kitchen", task.Owner, "[[stall]] Think about this for ever")
	if err := d.ended(id, reason.TurnTimeout); err != nil {
		return err
	}

	d.heading("One that ignores the interrupt has its child replaced; the next runs on the same thread")
	before := d.thread("kitchen")
	if err := d.hang("kitchen"); err != nil {
		return err
	}
	if text, err = d.ask("kitchen", task.Owner, "[[recall]] Which word was it?"); err != nil {
		return err
	}
	if after := d.thread("kitchen"); !strings.Contains(text, "basil") || after != before {
		return fmt.Errorf("the kitchen's thread was %s, is %s, and answered %q", before, after, text)
	}

	d.heading("The child is killed in the middle of a turn; the reply still comes, once")
	id = d.drop("garden", task.Owner, d.slow())
	pid, err := d.working(id)
	if err != nil {
		return err
	}
	d.line("kill -9 %d", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the child: %w", err)
	}
	return d.ended(id, reason.Answered)
}

// slow is a message whose turn takes long enough to be killed in its middle.
func (d *demo) slow() string { return "[[slow 40]] Write a long answer" }

// hang makes a turn ignore its interrupt: the stub plays deaf; the real
// app-server never does so, and is stopped by a signal.
func (d *demo) hang(channel string) error {
	if !d.real {
		return d.ended(d.drop(channel, task.Owner, "[[stall-hard]] Think, and do not listen"), reason.TurnTimeout)
	}
	id := d.drop(channel, task.Owner, "[[stall]] Think, and do not listen")
	pid, err := d.working(id)
	if err != nil {
		return err
	}
	d.line("kill -STOP %d (the real Codex does listen, so it is stopped)", pid)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the child: %w", err)
	}
	return d.ended(id, reason.TurnTimeout)
}

func (d *demo) drop(channel string, tier task.Tier, text string) string {
	d.counter++
	name := fmt.Sprintf("%d", d.counter)
	dir, err := d.sup.Dir("")
	if err != nil {
		return ""
	}
	id, err := dir.DropTask(func(id string) []byte {
		return fmt.Appendf(nil, "id: %s\nchannel_id: %s\naccess_tier: %s\ntask: %s\n", id, channel, tier, text)
	})
	if err != nil {
		d.line("not dropped: %v", err)
		return ""
	}
	d.mu.Lock()
	d.names[id] = name
	d.mu.Unlock()
	d.line("#%s %s in %s: %s", name, tier, channel, plainWords(text))
	return id
}

// ask drops a task, waits for its reply and prints it.
func (d *demo) ask(channel string, tier task.Tier, text string) (string, error) {
	id := d.drop(channel, tier, text)
	if err := d.ended(id, reason.Answered); err != nil {
		return "", err
	}
	return d.reply(id)
}

func (d *demo) reply(id string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(d.opt.Results, id+".txt"))
	if err != nil {
		return "", fmt.Errorf("read the reply: %w", err)
	}
	return string(raw), nil
}

// ended waits for a task's end, prints its reply and asserts the reason.
func (d *demo) ended(id string, want reason.Reason) error {
	e, err := d.await("the end of #"+d.names[id], func(e supervisor.Event) bool {
		return e.Kind == supervisor.EventSettled && e.TaskID == id
	})
	if err != nil {
		return err
	}
	text, err := d.reply(id)
	if err != nil {
		return err
	}
	d.rows = append(d.rows, *e.Row)
	d.line("#%s reply (%s): %s", d.names[id], e.Row.Reason, clip(text, 100))
	if e.Row.Reason != want {
		return fmt.Errorf("#%s ended as %s, want %s", d.names[id], e.Row.Reason, want)
	}
	return nil
}

func (d *demo) thread(channel string) string {
	dir, err := d.sup.Dir("")
	if err != nil {
		return ""
	}
	list, err := dir.Threads()
	if err != nil {
		return ""
	}
	for _, t := range list {
		if t.Channel == channel {
			return t.ThreadID
		}
	}
	return ""
}

// working waits until a task's turn is under way and returns the child's pid.
func (d *demo) working(id string) (int, error) {
	deadline := time.Now().Add(demoPatience)
	for time.Now().Before(deadline) {
		s := d.sup.Status().WorkDirs[0]
		for _, r := range s.Running {
			if r.ID == id && (r.Phase == "working" || r.Phase == "answering") {
				return s.Child.PID, nil
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	return 0, errors.New("the turn never got to work")
}

// saw prints what an operator would see, as it happens.
func (d *demo) saw(e supervisor.Event) {
	d.mu.Lock()
	name := d.names[e.TaskID]
	d.events = append(d.events, e)
	d.mu.Unlock()
	switch e.Kind {
	case supervisor.EventAttempt:
		if e.Attempt > 1 {
			d.line("#%s goes on: %s on thread %s", name, e.Try, clip(e.Thread, 13))
		}
	case supervisor.EventStop:
		d.line("#%s is interrupted: %s", name, e.Reason)
	case supervisor.EventChild:
		if c := e.Child; c.Reason != "" || c.State == supervisor.ChildReady {
			d.line("child is %s (generation %d)", strings.TrimSpace(string(c.State)+" "+string(c.Reason)), c.Generation)
		}
	case supervisor.EventSettled:
	}
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

func (d *demo) await(what string, want func(supervisor.Event) bool) (supervisor.Event, error) {
	deadline := time.After(demoPatience)
	for seen := 0; ; {
		d.mu.Lock()
		events := d.events[seen:]
		seen = len(d.events)
		d.mu.Unlock()
		for _, e := range events {
			if want(e) {
				return e, nil
			}
		}
		select {
		case <-d.woken:
		case <-deadline:
			return supervisor.Event{}, fmt.Errorf("%s did not come within %s", what, demoPatience)
		}
	}
}

func (d *demo) heading(text string) { fmt.Fprintf(d.out, "\n%s\n", text) }

func (d *demo) line(format string, args ...any) {
	fmt.Fprintf(d.out, "  %5.1fs  %s\n", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}

func (d *demo) table() {
	fmt.Fprintln(d.out)
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TASK\tTIER\tOUTCOME\tREASON\tATTEMPTS\tQUEUE WAIT\tDURATION")
	for _, r := range d.rows {
		wait := time.Duration(0)
		if len(r.Attempts) > 0 {
			wait = r.Attempts[0].Began.Sub(r.Queued)
		}
		fmt.Fprintf(w, "#%s\t%s\t%s\t%s\t%d\t%s\t%s\n", d.names[r.TaskID], r.Tier, r.Outcome, r.Reason, len(r.Attempts),
			max(wait, 0).Round(time.Millisecond), r.SettledAt.Sub(r.Queued).Round(time.Millisecond))
	}
	_ = w.Flush()
}

// plainWords drops the scenario marks that are for the stub's eyes.
func plainWords(text string) string {
	if i := strings.LastIndex(text, "]] "); i >= 0 {
		return text[i+3:]
	}
	return text
}

func clip(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}
