package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

// The test binary is every program of the scripts: this one, Codex (the stub),
// and the guard between them.
func TestMain(m *testing.M) {
	proc.RunGuardIfAsked()
	testscript.Main(m, map[string]func(){
		"codex-supervisor": main,
		"codex":            func() { os.Exit(stubserver.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// patience is how long anything may take that a script waits for.
const patience = 20 * time.Second

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			// A socket's path has to be short.
			run, err := os.MkdirTemp("/tmp", "cs")
			if err != nil {
				return err
			}
			e.Defer(func() { _ = os.RemoveAll(run) })
			home := filepath.Join(e.WorkDir, "home")
			// A race-enabled program sleeps for a second before it ends; here
			// a hundred of them do.
			e.Setenv("GORACE", "atexit_sleep_ms=0")
			e.Setenv("HOME", home)
			e.Setenv("CODEX_SUPERVISOR_SOCKET", filepath.Join(run, "r", "c.sock"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "stored"))
			e.Setenv("CODEX_HOME", filepath.Join(home, ".codex"))
			for _, dir := range []string{".codex", "../work/tasks", "../work/results"} {
				if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
					return err
				}
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "until": until, "field": field, "fetch": fetch, "occupy": occupy, "tree": tree, "gone": gone, "narrow": narrow, "term": term, "hangup": hangup,
		},
	})
}

// exits CODE COMMAND...: the command ends with exactly that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
}

// until WORD COMMAND...: the command's output comes to hold WORD.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until WORD COMMAND...")
	}
	deadline := time.After(patience)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		_ = ts.Exec(args[1], args[2:]...)
		if strings.Contains(ts.ReadFile("stdout"), args[0]) {
			return
		}
		select {
		case <-ticker.C:
		case <-deadline:
			ts.Fatalf("no %q within %s; last: %s%s", args[0], patience, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

// field FILE NAME VARIABLE: a top-level field of a JSON file becomes a variable.
func field(ts *testscript.TestScript, _ bool, args []string) {
	var doc map[string]any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc))
	v, ok := doc[args[1]]
	if !ok {
		ts.Fatalf("no field %s", args[1])
	}
	ts.Setenv(args[2], fmt.Sprint(v))
}

// fetch URL FILE: GET it; with ! it is not 200.
func fetch(ts *testscript.TestScript, neg bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, args[0], nil)
	ts.Check(err)
	reply, err := http.DefaultClient.Do(req)
	ts.Check(err)
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	ts.Check(err)
	if (reply.StatusCode == http.StatusOK) == neg {
		ts.Fatalf("%s: %s", args[0], reply.Status)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), text, 0o600))
}

// occupy VARIABLE: some address of this machine is taken until the end.
func occupy(ts *testscript.TestScript, _ bool, args []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// tree PID FILE: write down every process below PID; there must be some.
func tree(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	below, err := proc.Descendants(pid)
	ts.Check(err)
	if len(below) < 2 { // a guard and its child
		ts.Fatalf("%d processes below %d", len(below), pid)
	}
	raw, err := json.Marshal(below)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), raw, 0o600))
}

// gone FILE: none of the processes that tree wrote down is alive.
func gone(ts *testscript.TestScript, _ bool, args []string) {
	var below []proc.Identity
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &below))
	for _, id := range below {
		if id.Alive() {
			ts.Fatalf("%s is alive", id)
		}
	}
}

// narrow N: no line of the last output is wider than N columns, but for those
// that name a directory, which cannot be broken.
func narrow(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		if w := len([]rune(strings.TrimRight(line, "\n"))); w > n && !strings.Contains(line, ts.Getenv("WORK")) {
			ts.Fatalf("%d columns: %s", w, line)
		}
	}
}

// hangup PID: SIGHUP to a process.
func hangup(ts *testscript.TestScript, _ bool, args []string) {
	pid, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(syscall.Kill(pid, syscall.SIGHUP))
}

// term: SIGTERM to the commands in the background; testscript knows only INT
// and KILL.
func term(ts *testscript.TestScript, _ bool, _ []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(syscall.SIGTERM))
	}
}
