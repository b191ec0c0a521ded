package proc_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func TestSpawner_StartErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	garbage := write("garbage", "\x7fELF but nothing more", 0o755)
	closed := write("closed", "#!/bin/sh\n", 0o644)
	orphan := write("orphan", "#!/no/such/interpreter\n", 0o755)
	s := newSpawner(t)
	for _, c := range []struct {
		name string
		spec proc.Spec
		want error
		text string
	}{
		{"Missing", proc.Spec{Argv: []string{dir + "/none"}}, fs.ErrNotExist, dir + "/none"},
		{"NotOnPath", proc.Spec{Argv: []string{"no-such-program-anywhere"}}, fs.ErrNotExist, "not on PATH"},
		{"NoInterpreter", proc.Spec{Argv: []string{orphan}}, fs.ErrNotExist, orphan},
		{"Directory", proc.Spec{Argv: []string{dir}}, fs.ErrPermission, dir},
		{"NotExecutable", proc.Spec{Argv: []string{closed}}, fs.ErrPermission, closed},
		{"NoProgram", proc.Spec{Argv: []string{garbage}}, syscall.ENOEXEC, garbage},
		{"NoDirectory", proc.Spec{Argv: []string{"/bin/sh"}, Dir: dir + "/none"}, fs.ErrNotExist, dir + "/none"},
		{"RelativeToDir", proc.Spec{Argv: []string{"./closed"}, Dir: dir}, fs.ErrPermission, "./closed"},
		{"Nothing", proc.Spec{}, nil, "no program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Env = environ()
			p, err := s.Start(c.spec)
			if p != nil {
				t.Error("there is a process")
			}
			var start *proc.StartError
			if !errors.As(err, &start) {
				t.Fatalf("error %T %v, want *StartError", err, err)
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %q does not say %q", err, c.text)
			}
		})
	}
}

func TestSpawner_Closed(t *testing.T) {
	s := proc.NewSpawner()
	p := mustStart(t, s, shell("read x; exit 4"))
	s.Close()
	s.Close()
	if _, err := s.Start(shell("exit 0")); !errors.Is(err, proc.ErrSpawnerClosed) {
		t.Errorf("start after close: %v", err)
	}
	// What runs does not depend on the spawner's thread.
	if err := p.Stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := mustEnd(t, p), (proc.Exit{Code: 4}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
}

func TestSpawner_Together(t *testing.T) {
	s := newSpawner(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			p, err := s.Start(shell("cat; exit " + string(rune('0'+i))))
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			text := strings.Repeat(string(rune('a'+i)), 100_000)
			all.Go(func() {
				_, _ = io.WriteString(p.Stdin, text)
				_ = p.Stdin.Close()
			})
			if out, err := io.ReadAll(p.Stdout); err != nil || string(out) != text {
				t.Errorf("%d: %d bytes came back: %v", i, len(out), err)
			}
			if got, want := mustEnd(t, p), (proc.Exit{Code: i}); got != want {
				t.Errorf("exit %+v, want %+v", got, want)
			}
		})
	}
	all.Wait()
}

func TestSpawner_PathAndDirectory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := newSpawner(t)
	for _, program := range []string{"sh", "/bin/sh"} {
		p := mustStart(t, s, proc.Spec{Argv: []string{program, "-c", `pwd -P; echo "$1" >&2`, "sh", "a b"}, Dir: dir, Env: environ()})
		if got := mustLine(t, p); got != dir {
			t.Errorf("%s runs in %q, want %q", program, got, dir)
		}
		if text, err := io.ReadAll(p.Stderr); err != nil || string(text) != "a b\n" {
			t.Errorf("stderr %q: %v", text, err)
		}
		mustEnd(t, p)
	}
}

func TestSpawner_Environment(t *testing.T) {
	t.Setenv("NOT_GIVEN", "1")
	spec := shell("env")
	spec.Env = append(spec.Env, "NOTIFY_SOCKET=/run/x", "WATCHDOG_USEC=1", "WATCHDOG_PID=1", "LISTEN_FDS=1", "LISTEN_PID=1", "LISTEN_FDNAMES=a", "KEPT=a=b", "LISTENER=kept")
	p := mustStart(t, newSpawner(t), spec)
	out, err := io.ReadAll(p.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	text := "\n" + string(out)
	for _, gone := range []string{"\nNOTIFY_SOCKET", "\nWATCHDOG_", "\nLISTEN_", "\nNOT_GIVEN"} {
		if strings.Contains(text, gone) {
			t.Errorf("%q is in the environment", gone[1:])
		}
	}
	for _, kept := range []string{"\nKEPT=a=b\n", "\nLISTENER=kept\n"} {
		if !strings.Contains(text, kept) {
			t.Errorf("%q is not in the environment", kept)
		}
	}
}
