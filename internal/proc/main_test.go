package proc_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

// role makes the test binary another program.
const role = "CODEX_SUPERVISOR_TEST_ROLE"

func TestMain(m *testing.M) {
	proc.RunGuardIfAsked()
	switch os.Getenv(role) {
	case "family":
		syscall.Exit(playFamily()) // os.Exit waits a second under the race detector
	case "service":
		os.Exit(playService())
	case "headless":
		playHeadless()
	}
	goleak.VerifyTestMain(m)
}

// escapees is how many processes a family starts.
const escapees = 9

// playFamily is an app-server with every kind of process below it that gets away
// from signals to a group, to a session, or by name. It says "ready" when they
// run, and ends when stdin does, or with the status that it reads there.
func playFamily() int {
	start := func(attr *syscall.SysProcAttr, env []string, argv ...string) *exec.Cmd {
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.Env, cmd.SysProcAttr = env, attr
		cmd.Stdout = os.Stdout // held open, as shells' jobs do
		if err := cmd.Start(); err != nil {
			fmt.Println(err)
			os.Exit(99)
		}
		return cmd
	}
	env := os.Environ()
	start(&syscall.SysProcAttr{}, env, "/bin/sleep", "1000")
	start(&syscall.SysProcAttr{Setpgid: true}, env, "/bin/sleep", "1000")
	start(&syscall.SysProcAttr{Setsid: true}, env, "/bin/sleep", "1000")
	// Deaf to all that asks politely, and a child of its own (two processes).
	start(&syscall.SysProcAttr{Setsid: true}, env, "/bin/sh", "-c", "trap '' TERM HUP INT QUIT; sleep 1000; exit 0")
	// Double forks: their parent is gone before we say "ready".
	for _, cmd := range []*exec.Cmd{
		start(&syscall.SysProcAttr{}, env, "/bin/sh", "-c", "sleep 1000 &"),
		start(&syscall.SysProcAttr{Setsid: true}, env, "/bin/sh", "-c", "sleep 1000 &"),
		start(&syscall.SysProcAttr{Setsid: true}, []string{}, "/bin/sh", "-c", "/bin/sleep 1000 &"), // env -i
	} {
		if err := cmd.Wait(); err != nil {
			return 99
		}
	}
	// One whose first thread has ended: a zombie to look at, but it runs.
	headless := exec.Command("/proc/self/exe")
	headless.Env = []string{role + "=headless"}
	out, err := headless.StdoutPipe()
	if err != nil || headless.Start() != nil {
		return 99
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		return 99
	}
	fmt.Println("ready")
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return 0
	}
	code, _ := strconv.Atoi(strings.TrimSpace(line))
	return code
}

// born is what a service of its own tells about what it started.
type born struct{ Child, Keeper, Guard proc.Identity }

// playService starts a family and waits to be killed.
func playService() int {
	spawner := proc.NewSpawner()
	p, err := spawner.Start(familySpec())
	if err != nil {
		fmt.Println(err)
		return 99
	}
	if _, err := bufio.NewReader(p.Stdout).ReadString('\n'); err != nil {
		return 99
	}
	raw, err := json.Marshal(born{p.Child(), p.Guard(), p.InnerGuard()})
	if err != nil {
		return 99
	}
	fmt.Println(string(raw))
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// environ is what processes of the tests get: coverage counters of guards count.
func environ(more ...string) []string {
	env := append([]string{"PATH=/usr/local/bin:/usr/bin:/bin"}, more...)
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		env = append(env, "GOCOVERDIR="+dir)
	}
	return env
}

func familySpec() proc.Spec {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return proc.Spec{Argv: []string{self}, Env: environ(role + "=family")}
}

func shell(script string) proc.Spec {
	return proc.Spec{Argv: []string{"/bin/sh", "-c", script}, Env: environ()}
}

// patienceOfTests is for what takes milliseconds, on a machine that has no time.
const patienceOfTests = 30 * time.Second

func newSpawner(t testing.TB) *proc.Spawner {
	s := proc.NewSpawner()
	t.Cleanup(s.Close)
	return s
}

func mustStart(t testing.TB, s *proc.Spawner, spec proc.Spec) *proc.Process {
	t.Helper()
	p, err := s.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Close()
		<-p.Done()
	})
	return p
}

// mustLine reads a line of the program's output.
func mustLine(t testing.TB, p *proc.Process) string {
	t.Helper()
	_ = p.Stdout.SetReadDeadline(time.Now().Add(patienceOfTests))
	var line []byte
	for b := make([]byte, 1); ; line = append(line, b[0]) {
		if _, err := p.Stdout.Read(b); err != nil {
			t.Fatalf("read a line after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
	}
}

// mustEnd waits for the end of a process and of all below it.
func mustEnd(t testing.TB, p *proc.Process) proc.Exit {
	t.Helper()
	select {
	case <-p.Done():
		return p.Exit()
	case <-time.After(patienceOfTests):
		t.Fatalf("%s does not end", p.Child())
		panic("not reached")
	}
}

// eventually waits for a condition that nothing tells about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patienceOfTests)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}
