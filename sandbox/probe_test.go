package sandbox_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// fakeChild answers the probe as a child would. The zero value confines well.
type fakeChild struct {
	secret    string // what the environment shows without the sandbox
	controlNo string // part of a path that even the control cannot read
	guestSees string // part of a path that guests read all the same
	guestEnv  bool
	roomless  bool
	writes    bool
	cutShort  string // profile prefix whose command does not reach its end
	fails     string // profile prefix whose command cannot be run
	calls     []rpc.CommandExecParams
}

func (f *fakeChild) exec(_ context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
	f.calls = append(f.calls, p)
	control := p.PermissionProfile == ":danger-full-access"
	if f.fails != "" && strings.HasPrefix(p.PermissionProfile, f.fails) {
		return rpc.CommandExecReply{}, errors.New("exec refused")
	}
	var out strings.Builder
	for i, path := range p.Command[4:] {
		show := control && (f.controlNo == "" || !strings.Contains(path, f.controlNo))
		show = show || !control && i == 0 && !f.roomless
		show = show || !control && f.guestSees != "" && strings.Contains(path, f.guestSees)
		if text, err := os.ReadFile(path); err == nil && show {
			out.Write(text)
		}
	}
	if control || f.guestEnv {
		out.WriteString(f.secret + "\n")
	}
	if !control && f.writes {
		_ = os.WriteFile(p.Command[4]+".written", nil, 0o600)
	}
	if f.cutShort == "" || !strings.HasPrefix(p.PermissionProfile, f.cutShort) {
		out.WriteString("probe-end\n")
	}
	return rpc.CommandExecReply{Stdout: out.String()}, nil
}

func TestChild_Probe(t *testing.T) {
	for name, tc := range map[string]struct {
		fake fakeChild
		want string // "" holds
	}{
		"confined":               {fakeChild{}, ""},
		"control lacks work":     {fakeChild{controlNo: "/work/.codex"}, "canary of the work dir cannot be read without the sandbox"},
		"control lacks results":  {fakeChild{controlNo: "/results/"}, "canary of the results cannot be read without"},
		"control lacks home":     {fakeChild{controlNo: "/codex-home/"}, "canary of CODEX_HOME cannot be read without"},
		"control lacks room":     {fakeChild{controlNo: "/probe.txt"}, "canary of the room cannot be read without"},
		"control lacks env":      {fakeChild{secret: "none"}, "canary of the environment cannot be read without"},
		"guest reads work":       {fakeChild{guestSees: "/work/.codex"}, "a guest reads the work dir"},
		"guest reads results":    {fakeChild{guestSees: "/results/"}, "a guest reads the results"},
		"guest reads home":       {fakeChild{guestSees: "/codex-home/"}, "a guest reads CODEX_HOME"},
		"guest reads rooms":      {fakeChild{guestSees: "/rooms/"}, "a guest reads another room"},
		"guest reads env":        {fakeChild{guestEnv: true}, "a guest reads the environment"},
		"guest reads nothing":    {fakeChild{roomless: true}, "a guest cannot read its own room"},
		"guest writes":           {fakeChild{writes: true}, "a guest writes into its room"},
		"guest command is cut":   {fakeChild{cutShort: "guest_"}, "did not run to its end"},
		"control command is cut": {fakeChild{cutShort: ":danger"}, "did not run to its end"},
		"guest cannot run":       {fakeChild{fails: "guest_"}, "run the probe as a guest: exec refused"},
		"control cannot run":     {fakeChild{fails: ":danger"}, "run the probe without the sandbox: exec refused"},
	} {
		t.Run(name, func(t *testing.T) {
			o, dir := options(t)
			o.Read = map[task.Tier][]string{task.Team: {dir + "/free"}}
			child := mustNew(t, o).NewChild()
			if tc.fake.secret == "" {
				_, tc.fake.secret, _ = strings.Cut(child.Environ()[0], "=")
			}
			// A verdict of before must not outlive a probe that does not hold.
			good := fakeChild{}
			_, good.secret, _ = strings.Cut(child.Environ()[0], "=")
			if err := child.Probe(context.Background(), good.exec); err != nil || child.Refusal() != "" {
				t.Fatal(err, child.Refusal())
			}
			err := child.Probe(context.Background(), tc.fake.exec)
			if tc.want == "" {
				if err != nil || child.Refusal() != "" {
					t.Errorf("%v, %q", err, child.Refusal())
				}
				// One control and one command for each distinct guest profile.
				if len(tc.fake.calls) != 3 || tc.fake.calls[1].PermissionProfile == tc.fake.calls[2].PermissionProfile {
					t.Errorf("%d commands", len(tc.fake.calls))
				}
			} else if err == nil || !strings.Contains(err.Error(), tc.want) || child.Refusal() != reason.GuestsUnconfined {
				t.Errorf("%v (%q), want %s", err, child.Refusal(), tc.want)
			}
			for _, d := range []string{"/work/.c*", "/work/results/.c*", "/state/codex-home/*", "/state/rooms/*"} {
				if left := glob(t, dir+d); len(left) != 0 {
					t.Errorf("left behind: %q", left)
				}
			}
		})
	}
}

func TestChild_ProbeNeedsItsPlaces(t *testing.T) {
	for _, gone := range []string{"/work/results", "/state/codex-home", "/work"} {
		o, dir := options(t)
		child := mustNew(t, o).NewChild()
		if err := os.RemoveAll(dir + gone); err != nil {
			t.Fatal(err)
		}
		fake := fakeChild{secret: child.Environ()[0]}
		if err := child.Probe(context.Background(), fake.exec); err == nil || !strings.Contains(err.Error(), "place the canary") || len(fake.calls) != 0 {
			t.Errorf("%s: %v after %d commands", gone, err, len(fake.calls))
		}
	}
	o, dir := options(t)
	mustWrite(t, dir+"/state/rooms", "a file")
	if err := mustNew(t, o).NewChild().Probe(context.Background(), nil); err == nil || !strings.Contains(err.Error(), "prepare the probe") {
		t.Errorf("rooms: %v", err)
	}
}

func TestChild_ProbeOfAWorkDirThatIsReadOnly(t *testing.T) {
	for _, within := range []bool{true, false} {
		o, dir := options(t)
		if !within {
			o.Results = dir + "/free"
		}
		child := mustNew(t, o).NewChild()
		if err := os.Chmod(dir+"/work", 0o500); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir+"/work", 0o700) })
		fake := fakeChild{}
		_, fake.secret, _ = strings.Cut(child.Environ()[0], "=")
		err := child.Probe(context.Background(), fake.exec)
		if (err == nil) != within {
			t.Errorf("results in the work dir: %t: %v", within, err)
		}
		fake.guestSees = "/results/"
		if err := child.Probe(context.Background(), fake.exec); err == nil {
			t.Error("nothing stands for the work dir")
		}
	}
}

func TestChild_SandboxExec(t *testing.T) {
	o, dir := options(t)
	child := mustNew(t, o).NewChild()
	exe := child.SandboxExec([]string{"MARK=here"})
	run := func(script string, ms int64) (rpc.CommandExecReply, error) {
		mustWrite(t, dir+"/bin/codex", "#!/bin/sh\n"+script)
		if err := os.Chmod(dir+"/bin/codex", 0o700); err != nil {
			t.Fatal(err)
		}
		return exe(context.Background(), rpc.CommandExecParams{Command: []string{"cat", "a b"}, Cwd: dir, PermissionProfile: "p", TimeoutMs: ms})
	}
	got, err := run(`for a in "$@"; do echo "[$a]"; done; echo $MARK; pwd; echo bad >&2; exit 3`, 20_000)
	want := "[sandbox]\n[-P]\n[p]\n[" + strings.Join(child.Args(), "]\n[") + "]\n[-C]\n[" + dir + "]\n[--]\n[cat]\n[a b]\nhere\n" + dir + "\n"
	if err != nil || got.ExitCode != 3 || got.Stdout != want || got.Stderr != "bad\n" {
		t.Errorf("%+v %v\nwant %s", got, err, want)
	}
	if _, err := run("exec sleep 60", 50); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("timeout: %v", err)
	}
	if err := os.Remove(dir + "/bin/codex"); err != nil {
		t.Fatal(err)
	}
	if _, err := exe(context.Background(), rpc.CommandExecParams{Cwd: dir, TimeoutMs: 1000}); !errors.Is(err, exec.ErrNotFound) && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no binary: %v", err)
	}
}
