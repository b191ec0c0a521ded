package proc_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func TestIdentity_Alive(t *testing.T) {
	me := proc.Identify(os.Getpid())
	if !me.Alive() || me.StartTime == 0 || me.BootID == "" {
		t.Fatalf("%+v is not alive", me)
	}
	for name, other := range map[string]proc.Identity{
		"Zero":        {},
		"OtherStart":  {PID: me.PID, StartTime: me.StartTime + 1, BootID: me.BootID},
		"OtherBoot":   {PID: me.PID, StartTime: me.StartTime, BootID: "6f6c6473-0000-4000-8000-000000000000"},
		"UnknownBoot": {PID: me.PID, StartTime: me.StartTime},
		"NoProcess":   {PID: math.MaxInt32, StartTime: me.StartTime, BootID: me.BootID},
	} {
		if other.Alive() {
			t.Errorf("%s: %+v is alive", name, other)
		}
		if err := other.Signal(0); err != os.ErrProcessDone {
			t.Errorf("%s: signal: %v", name, err)
		}
	}
	raw, err := json.Marshal(proc.Identity{PID: 7, StartTime: 9, BootID: "b"})
	if want := `{"pid":7,"start_time":9,"boot_id":"b"}`; err != nil || string(raw) != want {
		t.Errorf("JSON %s, want %s (%v)", raw, want, err)
	}
}

func TestIdentity_Zombie(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "read x")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := proc.Identify(cmd.Process.Pid)
	if !id.Alive() {
		t.Error("it is not alive")
	}
	_ = stdin.Close()
	eventually(t, "the zombie to count as dead", func() bool { return !id.Alive() })
	if proc.Identify(cmd.Process.Pid) != id {
		t.Error("it was not a zombie but gone")
	}
	_ = cmd.Wait()
}

func TestIdentity_Headless(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{role + "=headless"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := proc.Identify(cmd.Process.Pid)
	eventually(t, "its first thread to end", func() bool {
		raw, err := os.ReadFile("/proc/" + strconv.Itoa(id.PID) + "/stat")
		_, _, _, state, _, parseErr := proc.ParseStat(string(raw))
		return err == nil && parseErr == nil && state == 'Z'
	})
	if !id.Alive() {
		t.Error("it looks dead, but the rest of it runs")
	}
	if n, err := proc.SweepStale(id); n != 1 || err != nil || id.Alive() {
		t.Errorf("swept %d, %v; alive: %v", n, err, id.Alive())
	}
	_ = cmd.Wait()
}

func TestParseStat(t *testing.T) {
	const tail = " S 41 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 0 98765 0"
	name, parent, threads, state, start, err := proc.ParseStat("1 (a) b) (c)" + tail)
	if name != "a) b) (c" || parent != 41 || threads != 17 || state != 'S' || start != 98765 || err != nil {
		t.Errorf("%q %d %d %c %d %v", name, parent, threads, state, start, err)
	}
	for _, raw := range []string{
		"", "1 a b", "1 )(" + tail, "1 (a) S 41", "1 (a)" + strings.Replace(tail, "41", "x", 1), "1 (a)" + strings.Replace(tail, "17", "x", 1),
		"1 (a)" + strings.Replace(tail, "98765", "-1", 1),
	} {
		if _, _, _, _, _, err := proc.ParseStat(raw); err == nil {
			t.Errorf("%q was understood", raw)
		}
	}
}

func TestResidentBytes(t *testing.T) {
	got, err := proc.ResidentBytes(os.Getpid())
	if err != nil || got < 1<<20 || got > 1<<34 {
		t.Errorf("%d bytes: %v", got, err)
	}
	if _, err := proc.ResidentBytes(math.MaxInt32); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no process: %v", err)
	}
}

func TestSweepStale_Strangers(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	id := proc.Identify(cmd.Process.Pid)
	otherStart, otherBoot, noBoot := id, id, id
	otherStart.StartTime--
	otherBoot.BootID = "6f6c6473-0000-4000-8000-000000000000"
	noBoot.BootID = ""
	if n, err := proc.SweepStale(otherStart, otherBoot, noBoot, proc.Identity{}); n != 0 || err != nil {
		t.Errorf("%d ended, %v", n, err)
	}
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(id.PID) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, state, _, err := proc.ParseStat(string(raw)); state == 'T' || !id.Alive() || err != nil {
		t.Errorf("the stranger is in state %c (%v)", state, err)
	}
}

// TestSweepStale_Forking sweeps a program without a guard that starts processes
// as fast as it can: none may be born between the look and the kill.
func TestSweepStale_Forking(t *testing.T) {
	for range 5 {
		cmd := exec.Command("/bin/sh", "-c", "echo; while :; do (sleep 1000 & (sleep 1000 & wait) & wait) & done")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		id := proc.Identify(cmd.Process.Pid)
		eventually(t, "some children", func() bool {
			ids, err := proc.Descendants(id.PID)
			return err == nil && len(ids) > 20
		})
		n, err := proc.SweepStale(id)
		if err != nil || n < 20 {
			t.Errorf("%d ended: %v", n, err)
		}
		_ = cmd.Wait()
		left := 0
		eachOfSession(t, id.PID, func(pid int) {
			left++
			_ = syscall.Kill(pid, syscall.SIGKILL)
		})
		if left > 0 {
			t.Errorf("%d escaped", left)
		}
	}
}

// TestSweepStale_Guarded sweeps a whole family through the identities that a
// service records, as if nobody did his work.
func TestSweepStale_Guarded(t *testing.T) {
	p, family := mustFamily(t, newSpawner(t))
	n, err := proc.SweepStale(p.Child(), p.Guard())
	if n != len(family) || err != nil {
		t.Errorf("%d ended, want %d: %v", n, len(family), err)
	}
	assertGone(t, family)
	if got := mustEnd(t, p); got.Err == nil || !strings.Contains(got.Err.Error(), "guard") {
		t.Errorf("exit %+v, want the loss of the guard", got)
	}
	if n, err := proc.SweepStale(p.Child(), p.Guard()); n != 0 || err != nil {
		t.Errorf("again: %d ended, %v", n, err)
	}
}
