package proc_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func TestProcess_LeavesNothing(t *testing.T) {
	kill := func(id proc.Identity) error { return id.Signal(syscall.SIGKILL) }
	for _, c := range []struct {
		name string
		end  func(p *proc.Process) error
		want proc.Exit
		lost bool // the guard's last word
	}{
		{"ExitsByItself", func(p *proc.Process) error { _, err := fmt.Fprintln(p.Stdin, 7); return err }, proc.Exit{Code: 7, Swept: escapees}, false},
		{"StdinClosed", func(p *proc.Process) error { return p.Stdin.Close() }, proc.Exit{Code: 0, Swept: escapees}, false},
		{"Terminate", (*proc.Process).Terminate, proc.Exit{Code: -1, Signal: "SIGTERM", Swept: escapees}, false},
		{"Kill", (*proc.Process).Kill, proc.Exit{Code: -1, Signal: "SIGKILL", Swept: escapees}, false},
		{"ChildKilled", func(p *proc.Process) error { return kill(p.Child()) }, proc.Exit{Code: -1, Signal: "SIGKILL", Swept: escapees}, false},
		{"KeeperKilled", func(p *proc.Process) error { return kill(p.Guard()) }, proc.Exit{Code: -1, Signal: "SIGKILL", Swept: escapees}, false},
		// The app-server gets the guard's Pdeathsig, which is SIGKILL as well.
		{"GuardKilled", func(p *proc.Process) error { return kill(p.InnerGuard()) }, proc.Exit{Code: -1, Swept: escapees + 1}, true},
		{"GuardsStoppedAndKill", func(p *proc.Process) error {
			for _, id := range []proc.Identity{p.Guard(), p.InnerGuard()} {
				if err := id.Signal(syscall.SIGSTOP); err != nil {
					return err
				}
			}
			return p.Kill()
		}, proc.Exit{Code: -1, Signal: "SIGKILL", Swept: escapees}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, family := mustFamily(t, newSpawner(t))
			if err := c.end(p); err != nil {
				t.Fatal(err)
			}
			got := mustEnd(t, p)
			assertGone(t, family) // at once: that is what Done says
			if lost := got.Err != nil; lost != c.lost {
				t.Errorf("error %v, want one: %v", got.Err, c.lost)
			}
			if got.Err = nil; got != c.want {
				t.Errorf("exit %+v, want %+v", got, c.want)
			}
			if err := p.Terminate(); err != os.ErrProcessDone {
				t.Errorf("Terminate afterwards: %v", err)
			}
		})
	}
}

// TestProcess_DiesWithItsGuard: should both guards be lost, the program at least
// must not live on.
func TestProcess_DiesWithItsGuard(t *testing.T) {
	p, family := mustFamily(t, newSpawner(t))
	for _, step := range []struct {
		id proc.Identity
		s  syscall.Signal
	}{{p.Guard(), syscall.SIGSTOP}, {p.InnerGuard(), syscall.SIGKILL}} {
		if err := step.id.Signal(step.s); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = p.Guard().Signal(syscall.SIGCONT) })
	eventually(t, "the end of the program", func() bool { return !p.Child().Alive() })
	if err := p.Guard().Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := mustEnd(t, p); got.Err == nil {
		t.Errorf("exit %+v, want the loss of the guard", got)
	}
	assertGone(t, family)
}

// TestProcess_Close gives a program up without a word.
func TestProcess_Close(t *testing.T) {
	p, family := mustFamily(t, newSpawner(t))
	p.Close()
	// It may have ended because of stdin before the guard came to end it.
	if got := mustEnd(t, p); got.Err != nil || got.Swept != escapees {
		t.Errorf("exit %+v, want %d swept", got, escapees)
	}
	assertGone(t, family)
}

// TestService_Killed kills the service, alone and with one of the pair.
func TestService_Killed(t *testing.T) {
	for _, c := range []struct {
		name string
		also func(born) []proc.Identity
	}{
		{"Alone", func(born) []proc.Identity { return nil }},
		{"AndGuard", func(b born) []proc.Identity { return []proc.Identity{b.Guard} }},
		{"AndKeeper", func(b born) []proc.Identity { return []proc.Identity{b.Keeper} }},
		{"AndChild", func(b born) []proc.Identity { return []proc.Identity{b.Child} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			service := exec.Command(self)
			service.Env, service.Stderr = environ(role+"=service"), os.Stderr
			stdin, err := service.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			defer stdin.Close()
			stdout, err := service.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := service.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(stdout).ReadString('\n')
			var b born
			if err != nil || json.Unmarshal([]byte(line), &b) != nil {
				t.Fatalf("the service says %q: %v", line, err)
			}
			family := mustBelow(t, b.Keeper)
			if err := service.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for _, id := range c.also(b) {
				_ = id.Signal(syscall.SIGKILL)
			}
			_ = service.Wait()
			eventually(t, "the end of the family", func() bool {
				for _, id := range family {
					if id.Alive() {
						return false
					}
				}
				return true
			})
		})
	}
}

// TestGuard_Statuses ends programs in many ways while there is something to
// sweep: collecting orphans must never take the program's own status.
func TestGuard_Statuses(t *testing.T) {
	s := newSpawner(t)
	for i := range 200 {
		script, want := "", proc.Exit{Code: -1}
		switch i % 4 {
		case 0:
			want.Code = i % 256
			script = fmt.Sprintf("exit %d", i%256)
		case 1:
			want.Signal = "SIGKILL"
			script = "kill -KILL $$"
		case 2:
			want.Signal = "SIGSEGV"
			script = "kill -SEGV $$"
		case 3:
			want.Code = 0
			script = "exec true"
		}
		// Two that stay, and two that have ended by then or end about now.
		p := mustStart(t, s, shell("sleep 1000 & (sleep 1000 &) ; true & (true &) ; "+script))
		got := mustEnd(t, p)
		if got.Swept < 2 || got.Swept > 4 {
			t.Errorf("%d: %q: %d swept", i, script, got.Swept)
		}
		if got.Swept = 0; got != want {
			t.Fatalf("%d: %q: exit %+v, want %+v", i, script, got, want)
		}
		p.Close()
	}
}

// TestGuard_ReapsAllTheTime: orphans come to the guard while the program lives.
func TestGuard_ReapsAllTheTime(t *testing.T) {
	p := mustStart(t, newSpawner(t), shell("for i in 1 2 3 4 5 6 7 8 9 10; do (/bin/true & /bin/sh -c 'exit 3' &) ; done; echo done; read x; exit 5"))
	if line := mustLine(t, p); line != "done" {
		t.Fatal(line)
	}
	eventually(t, "the orphans to be collected", func() bool {
		alive, err := proc.Descendants(p.Guard().PID)
		if err != nil || len(alive) != 2 { // guard, program
			return false
		}
		dead, err := proc.Zombies(p.Guard().PID)
		return err == nil && dead == 0
	})
	if !p.Child().Alive() {
		t.Error("the program has ended")
	}
	_ = p.Stdin.Close()
	if got, want := mustEnd(t, p), (proc.Exit{Code: 5}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
}

// TestGuard_CatchesHopper: a process that forks and ends all the time has
// another pid whenever it is looked for.
func TestGuard_CatchesHopper(t *testing.T) {
	p := mustStart(t, newSpawner(t), shell("hop() { hop & } ; hop >/dev/null 2>&1 & echo on; exec cat"))
	if line := mustLine(t, p); line != "on" {
		t.Fatal(line)
	}
	_ = p.Stdin.Close()
	if got := mustEnd(t, p); got.Code != 0 || got.Err != nil {
		t.Errorf("exit %+v", got)
	}
}

// TestGuard_IsDeaf: whoever signals the guards by name or by group does not mean
// them; the service gives its orders through the pipe.
func TestGuard_IsDeaf(t *testing.T) {
	p := mustStart(t, newSpawner(t), shell("trap 'exit 5' TERM; echo ready; while :; do sleep 1000 & wait; done"))
	mustLine(t, p)
	for _, id := range []proc.Identity{p.Guard(), p.InnerGuard()} {
		for _, s := range []syscall.Signal{
			syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGTSTP,
		} {
			if err := id.Signal(s); err != nil {
				t.Errorf("%s to %s: %v", s, id, err)
			}
		}
	}
	if err := p.Terminate(); err != nil {
		t.Fatal(err)
	}
	if got, want := mustEnd(t, p), (proc.Exit{Code: 5, Swept: 1}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
}

// TestGuard_Unkillable: what cannot be ended is named, not waited for for ever.
func TestGuard_Unkillable(t *testing.T) {
	// A frozen process of the old freezer does not even obey SIGKILL.
	group := "/sys/fs/cgroup/freezer/codex-supervisor-test"
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("no cgroup v1 freezer to make a process unkillable: %v", err)
	}
	t.Cleanup(func() { eventually(t, "the freezer to be empty", func() bool { return os.Remove(group) == nil }) })
	write := func(file, text string) {
		if err := os.WriteFile(group+"/"+file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := mustStart(t, newSpawner(t), shell("(sleep 1000 >/dev/null & echo $!); read x; exit 3"))
	pid := mustLine(t, p)
	write("cgroup.procs", pid)
	write("freezer.state", "FROZEN")
	t.Cleanup(func() { write("freezer.state", "THAWED") })
	_ = p.Stdin.Close()
	got := mustEnd(t, p)
	if want := "could not be ended: pid " + pid + " (sleep, state D)"; got.Code != 3 || got.Swept != 0 || got.Err == nil || !strings.Contains(got.Err.Error(), want) {
		t.Errorf("exit %+v, want code 3 and %q", got, want)
	}
}

// TestLevelOOMScore does on a file what TestSpawner_OOMScore may not do for lack
// of a capability.
func TestLevelOOMScore(t *testing.T) {
	for _, c := range []struct{ own, program string }{{"-900\n", "0"}, {"-1000\n", "0"}, {"0\n", "0\n"}, {"250\n", "250\n"}} {
		file := t.TempDir() + "/oom_score_adj"
		if err := os.WriteFile(file, []byte(c.own), 0o600); err != nil {
			t.Fatal(err)
		}
		assert := func(when, want string) {
			t.Helper()
			if got, err := os.ReadFile(file); err != nil || string(got) != want {
				t.Errorf("%q: %s it is %q, want %q (%v)", c.own, when, got, want, err)
			}
		}
		restore := proc.LevelOOMScore(file)
		assert("while the program starts", c.program)
		restore()
		assert("afterwards", c.own)
	}
}
