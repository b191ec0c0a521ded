package sandbox_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func TestCodex_OwnerModes(t *testing.T) {
	for _, tc := range []struct {
		mode           sandbox.Mode
		writesWork     bool
		writesGuarded  bool
		extends, inUse string
	}{
		{sandbox.ReadOnly, false, false, ":read-only", "readOnly"},
		{sandbox.WorkspaceWrite, true, false, ":workspace", "workspaceWrite"},
		{sandbox.FullAccess, true, true, "", "dangerFullAccess"},
	} {
		t.Run(string(tc.mode), func(t *testing.T) {
			h := newHouse(t, "", func(h *house) { h.opts.Mode = tc.mode })
			mustWrite(t, h.user+"/AGENTS.md", "always-answer-in-verse")
			h.home, _ = sandbox.PrepareHome(sandbox.HomeOptions{From: h.user, State: h.state})
			h.opts.DeveloperInstructions = h.home.Instructions
			// In a repository codex notes its trust in config.toml.
			if out, err := exec.Command("git", "init", "-q", h.work).CombinedOutput(); err != nil {
				t.Fatalf("git init: %v: %s", err, out)
			}
			config := read(t, h.user+"/config.toml")
			child := h.policy().NewChild()
			c := h.start(child)
			reply := c.threadStart(child.OwnerStart())
			if err := child.CheckOwner(reply); err != nil {
				t.Fatal(err)
			}
			if reply.Sandbox.Type != tc.inUse || reply.ActivePermissionProfile.Extends != tc.extends {
				t.Errorf("in force: %s extends %q", reply.Sandbox.Type, reply.ActivePermissionProfile.Extends)
			}
			c.turn(reply.Thread.ID, "[[sh echo x >made; echo x >tasks/forged.txt; echo x >results/forged.txt; echo x >"+h.state+"/forged; echo x >"+h.home.Dir+"/forged; true]]")
			check := func(path string, want bool) {
				if _, err := os.Stat(path); (err == nil) != want {
					t.Errorf("%s written: %t, want %t", strings.TrimPrefix(path, h.dir), err == nil, want)
				}
			}
			check(h.work+"/made", tc.writesWork)
			for _, path := range []string{h.work + "/tasks/forged.txt", h.work + "/results/forged.txt", h.state + "/forged", h.home.Dir + "/forged"} {
				check(path, tc.writesGuarded)
			}
			if got := c.turn(reply.Thread.ID, "[[sh env]]"); !strings.Contains(got, "PATH=") || strings.Contains(got, "CODEX_SUPERVISOR_CANARY") {
				t.Errorf("the service's environment reaches an owner's command: %s", got)
			}
			reqs := h.model.Requests()
			if len(reqs) == 0 || !slices.ContainsFunc(reqs[0].Developer, func(s string) bool { return strings.Contains(s, "always-answer-in-verse") }) {
				t.Error("the owner's AGENTS.md is not among the developer instructions")
			}
			trusted := strings.Contains(read(t, h.home.Dir+"/config.toml"), "trust_level")
			if read(t, h.user+"/config.toml") != config || trusted != (tc.mode != sandbox.ReadOnly) {
				t.Errorf("trust noted in our copy: %t; the user's own file changed: %t", trusted, read(t, h.user+"/config.toml") != config)
			}
			// A thread that asks for nothing gets the child's default, the narrowest.
			plain := c.threadStart(rpc.ThreadStartParams{Cwd: h.work})
			if plain.Sandbox.Type != "readOnly" {
				t.Errorf("the child's default is %s", plain.Sandbox.Type)
			}
			if err := child.CheckOwner(plain); err == nil {
				t.Error("a thread on the default profile passes as an owner's")
			}
		})
	}
}

func TestCodex_OwnerResume(t *testing.T) {
	h := newHouse(t, "", func(h *house) { h.opts.Mode = sandbox.WorkspaceWrite })
	first := h.policy().NewChild()
	c := h.start(first)
	thread := c.threadStart(first.OwnerStart()).Thread.ID
	c.turn(thread, "[[remember plum]]")
	c.stop()

	// The next generation has other ids and a narrower mode; the stored policy
	// must not come back.
	h.opts.Mode = sandbox.ReadOnly
	second := h.policy().NewChild()
	d := h.start(second)
	var reply rpc.ThreadReply
	waitUnlocked(t, func() error { return d.call("thread/resume", second.OwnerResume(thread), &reply) })
	if err := second.CheckOwner(reply); err != nil {
		t.Fatal(err)
	}
	if err := first.CheckOwner(reply); err == nil {
		t.Error("the first generation's check takes the second's profile")
	}
	if got := d.turn(thread, "[[recall]]"); !strings.Contains(got, "plum") {
		t.Errorf("resumed thread: %q", got)
	}
}

// waitUnlocked repeats a resume until the old process has let go of the thread.
func waitUnlocked(t *testing.T, try func() error) {
	t.Helper()
	for range 2000 {
		err := try()
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "active writer") {
			t.Fatal(err)
		}
	}
	t.Fatal("the thread stays locked")
}

func TestCodex_ImportedThreadResumes(t *testing.T) {
	h := newHouse(t, "", nil)
	child := h.policy().NewChild()
	// A thread made in the user's own home, by the user's own codex.
	env := append(sandbox.Environment([]string{"HOME=" + h.user, "PATH=/usr/bin:/bin"}, nil, h.user), child.Environ()...)
	c := h.startWith(child.Args(), env)
	thread := c.threadStart(child.OwnerStart()).Thread.ID
	c.turn(thread, "[[remember quince]]")
	if err := sandbox.ImportRollout(h.home, h.user, thread); err != nil {
		t.Fatal(err)
	}
	d := h.start(child)
	var reply rpc.ThreadReply
	d.must("thread/resume", child.OwnerResume(thread), &reply)
	if err := child.CheckOwner(reply); err != nil {
		t.Fatal(err)
	}
	if got := d.turn(thread, "[[recall]]"); !strings.Contains(got, "quince") {
		t.Errorf("imported thread: %q", got)
	}
}
