package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

// stopTimes are short: nothing of a temporary child is worth waiting for.
var stopTimes = proc.StopTimes{Stdin: time.Second, Term: time.Second, Kill: 2 * time.Second}

// outputLimit bounds what is read of a program that should print one line.
const outputLimit = 64 << 10

// house is where a temporary child lives: a directory in place of the state
// dir, with a home and rooms of its own, which go with it.
type house struct {
	work  WorkDir
	dir   string
	home  sandbox.Home
	child *sandbox.Child
}

func (h *house) remove() { _ = removeAll(h.dir) }

// tmp is the child's TMPDIR: Codex leaves directories of its own there.
func (h *house) tmp() string { return filepath.Join(h.dir, "tmp") }

// words names what the house stands for in what is said about it: nobody will
// find the house itself. A line of its config.toml is the same of the user's.
func (h *house) words(s string) string {
	if h.dir == "" {
		return s
	}
	from := h.home.From
	if from == "" {
		from = h.work.CodexHomeFrom
	}
	return strings.NewReplacer(filepath.Join(h.dir, "codex-home"), from, h.dir, h.work.State).Replace(s)
}

// staleAfter is when a house of an earlier doctor that was killed is removed.
const staleAfter = 10 * time.Minute

// build makes one in the state dir, since rooms have to work where they will
// lie, or in what is there of the way to it.
// With an error the house is gone, and only good for its words.
func (d *doctor) build(w WorkDir) (h *house, err error) {
	h = &house{work: w}
	at, err := existing(w.State)
	if err != nil {
		at = os.TempDir()
	}
	sweepHouses(at)
	dir, err := os.MkdirTemp(at, tryPrefix)
	if err != nil {
		if dir, err = os.MkdirTemp("", tryPrefix); err != nil {
			return h, fmt.Errorf("make a temporary state dir: %w", err)
		}
	}
	h.dir = dir
	defer func() {
		if err != nil {
			_ = removeAll(dir)
		}
	}()
	if err := os.Mkdir(h.tmp(), 0o700); err != nil {
		return h, err
	}
	if h.home, err = d.prepareHome(w, dir); err != nil {
		return h, err
	}
	read, models := map[task.Tier][]string{}, map[task.Tier]string{}
	for t, o := range w.Tiers {
		read[t], models[t] = o.Read, o.Model
	}
	results := w.Results
	if !exists(results) { // the service makes it; until then one stands for it
		results = filepath.Join(dir, "results")
		if err := os.Mkdir(results, 0o700); err != nil {
			return h, err
		}
	}
	policy, err := sandbox.New(sandbox.Options{
		Mode: w.Sandbox, Work: w.Path, Cwd: w.Cwd, Tasks: w.Tasks, Results: results, State: dir,
		CodexHome: h.home.Dir, CodexBinary: w.Codex[0], Deny: append([]string{w.KeyFile}, w.Deny...), Read: read,
		Private: append([]string{w.CodexHomeFrom, w.State}, w.Private...),
		Model:   w.Model, TierModel: models, ShellEnv: w.ShellEnv,
		DeveloperInstructions: h.home.Instructions, UID: d.UID, UnsafeRootGuests: w.UnsafeRootGuests, StubChild: w.StubChild,
	})
	if err != nil {
		return h, err
	}
	h.child = policy.NewChild()
	return h, nil
}

// prepareHome makes a private home, whatever kind the service uses: what
// matters of it is the configuration and the login.
func (d *doctor) prepareHome(w WorkDir, dir string) (sandbox.Home, error) {
	from, login := w.CodexHomeFrom, ""
	switch w.CodexHome {
	case sandbox.HomePrivate, "":
		// A login that was made in the private home itself is a file there.
		own := filepath.Join(w.State, "codex-home", "auth.json")
		if info, err := os.Lstat(own); err == nil && info.Mode().IsRegular() {
			login = own
		}
	case sandbox.HomeInherit:
	default:
		from = w.CodexHome
	}
	home, err := sandbox.PrepareHome(sandbox.HomeOptions{From: from, State: dir})
	if err != nil || login == "" {
		return home, err
	}
	link := filepath.Join(home.Dir, "auth.json")
	if err := os.Remove(link); err != nil {
		return home, fmt.Errorf("use the private login: %w", err)
	}
	if err := os.Symlink(login, link); err != nil {
		return home, fmt.Errorf("use the private login: %w", err)
	}
	return home, nil
}

func sweepHouses(at string) {
	left, _ := filepath.Glob(filepath.Join(at, tryPrefix+"*"))
	for _, path := range left {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > staleAfter {
			_ = removeAll(path)
		}
	}
}

// removeAll removes a tree, directories without write permission included.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if err == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// patient is a temporary child and its connection.
type patient struct {
	house   *house
	env     []string
	exec    sandbox.ExecFunc
	process *proc.Process
	client  *rpc.Client
	stderr  *proc.Ring
	spawner *proc.Spawner
	group   sync.WaitGroup

	mu      sync.Mutex
	warning string // what Codex says of its configuration
}

func (d *doctor) environ(w WorkDir, h *house) []string {
	base := slices.DeleteFunc(slices.Clone(d.Environ), func(s string) bool { return strings.HasPrefix(s, "TMPDIR=") })
	env := append(sandbox.Environment(append(base, "TMPDIR="+h.tmp()), w.EnvPass, h.home.Dir), h.child.Environ()...)
	return append(env, w.Env...)
}

// start starts a child in the house; stop ends it.
func (d *doctor) start(w WorkDir, h *house) (*patient, error) {
	p := &patient{house: h, env: d.environ(w, h), stderr: proc.NewRing(20, 500), spawner: proc.NewSpawner()}
	argv := append(append(append([]string{}, w.Codex...), "app-server"), h.child.Args()...)
	var err error
	p.process, err = p.spawner.Start(proc.Spec{Argv: argv, Dir: w.Path, Env: p.env, NoFile: wantedFiles})
	if err != nil {
		p.spawner.Close()
		return nil, err
	}
	p.client = rpc.New(rpc.Options{
		In: p.process.Stdin, Out: p.process.Stdout, Logger: slog.New(slog.DiscardHandler),
		OnNotification: p.note,
	})
	p.group.Go(func() { p.stderr.Drain(p.process.Stderr) })         // ends with the pipe, waited for in stop
	p.group.Go(func() { _ = p.client.Serve(context.Background()) }) // ends with the connection, waited for in stop
	p.exec = p.command
	if d.wrap != nil {
		p.exec = d.wrap(p.env, p.command)
	}
	return p, nil
}

// note keeps what makes every thread fail later. A warning without a path, such
// as that of a missing bwrap, is harmless (codex app-server 0.171.0, measured).
func (p *patient) note(n rpc.Notification) {
	if n.Method != "configWarning" {
		return
	}
	if w, err := rpc.DecodeConfigWarning(n); err == nil && w.Path != "" && strings.Contains(w.Summary, "Invalid configuration") {
		p.mu.Lock()
		p.warning = w.Summary + " " + w.Details
		p.mu.Unlock()
	}
}

func (p *patient) configWarning() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.warning
}

// said is an error with the last words of a child that died.
func (p *patient) said(err error) string {
	if rpc.FaultOf(err) == rpc.FaultTimeout {
		return "no answer in time"
	}
	text := oneLine(p.house.words(err.Error()), 300)
	if rpc.FaultOf(err) != rpc.FaultConnection {
		return text
	}
	if lines := p.stderr.Lines(); len(lines) > 0 {
		text += "; it said: " + oneLine(strings.Join(lines[max(0, len(lines)-3):], " | "), 300)
	}
	return text
}

// stop ends the child and everything below it.
func (p *patient) stop() {
	proc.Stop(context.Background(), p.process, stopTimes)
	_ = p.client.Close()
	p.group.Wait()
	p.process.Close()
	p.spawner.Close()
}

// command runs a command on the child, as the service does.
func (p *patient) command(ctx context.Context, params rpc.CommandExecParams) (rpc.CommandExecReply, error) {
	reply, err := p.client.CommandExec(ctx, params)
	if rpc.FaultOf(err) == rpc.FaultExperimental {
		return p.house.child.SandboxExec(p.env)(ctx, params)
	}
	return reply, err
}

// output runs codex with one argument and returns what it prints.
func (d *doctor) output(ctx context.Context, w WorkDir, arg string) (string, error) {
	home, err := os.MkdirTemp("", tryPrefix) // Codex makes files in any home
	if err != nil {
		return "", err
	}
	defer func() { _ = removeAll(home) }()
	spawner := proc.NewSpawner()
	defer spawner.Close()
	p, err := spawner.Start(proc.Spec{
		Argv: append(append([]string{}, w.Codex...), arg), Dir: "/", Env: append(sandbox.Environment(d.Environ, w.EnvPass, home), w.Env...),
	})
	if err != nil {
		return "", err
	}
	defer p.Close()
	if deadline, has := ctx.Deadline(); has {
		_ = p.Stdout.SetReadDeadline(deadline)
		_ = p.Stderr.SetReadDeadline(deadline)
	}
	stderr := proc.NewRing(5, 300)
	var group sync.WaitGroup
	group.Go(func() { stderr.Drain(p.Stderr) }) // ends with the pipe or its deadline
	var out bytes.Buffer
	_, readErr := io.Copy(&out, io.LimitReader(p.Stdout, outputLimit))
	exit := proc.Stop(ctx, p, stopTimes)
	group.Wait()
	switch {
	case errors.Is(readErr, os.ErrDeadlineExceeded):
		return "", errors.New("no answer in time")
	case exit.Signal != "":
		return "", fmt.Errorf("ended by %s", exit.Signal)
	case exit.Code != 0:
		return "", fmt.Errorf("exit status %d: %s", exit.Code, oneLine(strings.Join(stderr.Lines(), " | "), 200))
	}
	return out.String(), nil
}
