package proc_test

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

// TestSpawner_Inherits: descriptors that leaked into the service from whoever
// started it reach neither the program nor its guards, who would hold somebody's
// pipe or lock for weeks.
func TestSpawner_Inherits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	leak, err := unix.FcntlInt(w.Fd(), unix.F_DUPFD, 50) // without close-on-exec
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", leak))
	if err != nil {
		t.Fatal(err)
	}
	p := mustStart(t, newSpawner(t), shell("echo ready; read x"))
	mustLine(t, p)
	files := func(id proc.Identity) map[string]string {
		dir := fmt.Sprintf("/proc/%d/fd", id.PID)
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, e := range entries {
			found[e.Name()], _ = os.Readlink(dir + "/" + e.Name())
		}
		return found
	}
	stdout := files(p.Child())["1"]
	for who, id := range map[string]proc.Identity{"keeper": p.Guard(), "guard": p.InnerGuard(), "program": p.Child()} {
		for fd, target := range files(id) {
			if target == name {
				t.Errorf("%s holds the leaked descriptor as %s", who, fd)
			}
			if target == stdout && who != "program" {
				t.Errorf("%s holds the program's stdout as %s", who, fd)
			}
			if n, _ := strconv.Atoi(fd); who == "program" && n > 2 {
				t.Errorf("the program has descriptor %s: %s", fd, target)
			}
		}
	}
	for fd := range 3 { // a program must not find its standard streams non-blocking
		info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", p.Child().PID, fd))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(info)) {
			if text, ok := strings.CutPrefix(line, "flags:"); ok {
				if flags, err := strconv.ParseInt(strings.TrimSpace(text), 8, 64); err != nil || flags&unix.O_NONBLOCK != 0 {
					t.Errorf("descriptor %d has flags %s", fd, strings.TrimSpace(text))
				}
			}
		}
	}
}

func TestSpawner_Groups(t *testing.T) {
	p := mustStart(t, newSpawner(t), shell("echo ready; read x"))
	mustLine(t, p)
	mine, err := unix.Getsid(0)
	if err != nil {
		t.Fatal(err)
	}
	for who, id := range map[string]proc.Identity{"keeper": p.Guard(), "guard": p.InnerGuard(), "program": p.Child()} {
		if sid, err := unix.Getsid(id.PID); err != nil || sid == mine {
			t.Errorf("%s is in our session: a terminal's Ctrl-C reaches it (%v)", who, err)
		}
	}
	if group, err := unix.Getpgid(p.Child().PID); err != nil || group != p.Child().PID {
		t.Errorf("the program is in group %d, want its own %d (%v)", group, p.Child().PID, err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Child().PID))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		for _, field := range []string{"SigIgn:", "SigBlk:"} {
			if text, ok := strings.CutPrefix(line, field); ok {
				mask, err := strconv.ParseUint(strings.TrimSpace(text), 16, 64)
				for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE, syscall.SIGCHLD, syscall.SIGUSR1} {
					if err != nil || mask&(1<<(s-1)) != 0 {
						t.Errorf("%s %s in the program (%v)", field, s, err)
					}
				}
			}
		}
	}
}

func TestSpawner_NoFile(t *testing.T) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	plain, err := exec.Command("/bin/sh", "-c", "ulimit -n").Output() // what we were started with
	if err != nil {
		t.Fatal(err)
	}
	s := newSpawner(t)
	for _, c := range []struct {
		ask  uint64
		want string
	}{
		{0, strings.TrimSpace(string(plain))},
		{min(3000, own.Max), strconv.FormatUint(min(3000, own.Max), 10)},
		{own.Max + 1, strconv.FormatUint(own.Max, 10)},
	} {
		spec := shell("ulimit -n; ulimit -Hn")
		spec.NoFile = c.ask
		p := mustStart(t, s, spec)
		if got := mustLine(t, p); got != c.want {
			t.Errorf("limit %s for NoFile %d, want %s", got, c.ask, c.want)
		}
		if got, want := mustLine(t, p), strconv.FormatUint(own.Max, 10); got != want {
			t.Errorf("hard limit %s for NoFile %d, want %s", got, c.ask, want)
		}
		mustEnd(t, p)
	}
}

// TestSpawner_OOMScore: the guards keep the service's protection from the
// kernel's OOM killer, the program does not get it.
func TestSpawner_OOMScore(t *testing.T) {
	const own = "/proc/self/oom_score_adj"
	before, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ score, guard, program string }{
		{"300", "300", "300"},
		{"-500", "-500", "0"}, // needs a capability
	} {
		if err := os.WriteFile(own, []byte(c.score), 0); err != nil {
			t.Skipf("may not set a score: %v", err)
		}
		t.Cleanup(func() { _ = os.WriteFile(own, before, 0) })
		p := mustStart(t, newSpawner(t), shell("read x"))
		score := func(id proc.Identity) string {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", id.PID))
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(raw))
		}
		if got := score(p.Child()); got != c.program {
			t.Errorf("service %s: program %s, want %s", c.score, got, c.program)
		}
		for _, id := range []proc.Identity{p.Guard(), p.InnerGuard()} {
			// The guard puts it back a moment after the program has started.
			eventually(t, "the guard's score", func() bool { return score(id) == c.guard })
		}
	}
}

// TestSpawner_KeepsNoDescriptors starts and fails to start, many times.
func TestSpawner_KeepsNoDescriptors(t *testing.T) {
	s := newSpawner(t)
	round := func() {
		p := mustStart(t, s, shell("cat >&2"))
		_ = p.Stdin.Close()
		if _, err := io.ReadAll(p.Stderr); err != nil {
			t.Fatal(err)
		}
		mustEnd(t, p)
		p.Close()
		if _, err := s.Start(proc.Spec{Argv: []string{"/none"}, Env: environ()}); err == nil {
			t.Fatal("/none was started")
		}
		if _, err := s.Start(proc.Spec{Argv: []string{"/bin/sh"}, Dir: "/none"}); err == nil {
			t.Fatal("started in /none")
		}
	}
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	round() // what the runtime opens once
	// Nor may it be left to the garbage collector.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	before := count()
	for range 50 {
		round()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after 50 rounds", before, after)
	}
}

// TestSpawner_NoDescriptorsLeft: not being able to open pipes is an error, and
// gives back what was opened.
func TestSpawner_NoDescriptorsLeft(t *testing.T) {
	s := newSpawner(t)
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	highest := 0
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		highest = max(highest, n)
	}
	for room := range uint64(12) {
		limit := own
		limit.Cur = uint64(highest) + room
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
		p, err := s.Start(shell("exit 0"))
		if restore := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &own); restore != nil {
			t.Fatal(restore)
		}
		if err == nil {
			mustEnd(t, p)
			p.Close()
			continue
		}
		if p != nil {
			t.Errorf("room for %d: both a process and %v", room, err)
		}
	}
	p := mustStart(t, s, shell("exit 3"))
	if got, want := mustEnd(t, p), (proc.Exit{Code: 3}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
}
