package doctor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// serving makes the house one that a running service serves.
func (h *house) serving(change func(*supervisor.WorkDirStatus)) {
	s := supervisor.WorkDirStatus{
		Name: "house", Path: h.w().Path, State: h.w().State,
		Child:  supervisor.ChildStatus{State: supervisor.ChildReady, Version: "0.171.0"},
		Guests: supervisor.GuestStatus{Confined: true},
	}
	if change != nil {
		change(&s)
	}
	h.opt.Service = &control.Status{Status: supervisor.Status{PID: 4711, WorkDirs: []supervisor.WorkDirStatus{s}}, Listen: "127.0.0.1:9464"}
	h.opt.ServiceSocket = "/run/x/control.sock"
}

func TestCodex_ConfigLoads(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*house)
		found, try string
	}{
		"Broken":      {func(h *house) { write(h.t, h.w().CodexHomeFrom+"/config.toml", "model = [\n", 0o600) }, "user/config.toml", "mend "},
		"Unreadable":  {func(h *house) { write(h.t, h.w().CodexHomeFrom+"/config.toml", "", 0) }, "permission denied", "codex_home_from"},
		"OtherPolicy": {func(h *house) { h.w().Env = append(h.w().Env, "STUB_POLICY=write") }, "owners are refused: ", "/etc/codex"},
		"Exits":       {func(h *house) { h.w().Env = append(h.w().Env, "STUB_EXIT=3", "STUB_STDERR=40") }, "codex does not come up: ", "by hand"},
		"BadMode":     {func(h *house) { h.w().Sandbox = "none" }, "sandbox", "change it in the configuration"},
		"BadRead": {func(h *house) {
			h.w().Tiers = map[task.Tier]supervisor.TierOptions{task.Guest: {Read: []string{"/no/such"}}}
		}, "/no/such", "change it in the configuration"},
		"OpensTheState": {func(h *house) {
			h.w().Tiers = map[task.Tier]supervisor.TierOptions{task.Guest: {Read: []string{h.w().State}}}
		}, "contains the state dir", "change it in the configuration"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			tc.change(h)
			r := h.run(t.Context())
			c := find(t, r, doctor.CodexConfigLoads)
			wants(t, c, doctor.Fail, tc.found, tc.try)
			if strings.Contains(c.Found, ".codex-supervisor-doctor-") {
				t.Errorf("names a file that is gone: %s", c.Found)
			}
			wants(t, find(t, r, doctor.Confinement), doctor.Warn, "not checked: see codex_config_loads", "")
		})
	}
	h := newHouse(t)
	wants(t, h.check(doctor.CodexConfigLoads), doctor.OK, "no config.toml", "")
	write(t, h.w().CodexHomeFrom+"/config.toml", "model = \"x\"\n[mcp_servers.one]\ncommand = \"false\"\n", 0o600)
	wants(t, h.check(doctor.CodexConfigLoads), doctor.OK, "user/config.toml", "")
	if err := os.RemoveAll(h.w().Path); err != nil {
		t.Fatal(err)
	}
	wants(t, h.check(doctor.CodexConfigLoads), doctor.Warn, "not checked: there is no work dir", "")
}

func TestCodex_Login(t *testing.T) {
	h := newHouse(t)
	h.w().Env = append(h.w().Env, "STUB_NO_LOGIN=1")
	wants(t, h.check(doctor.Login), doctor.Fail, "no login in "+h.w().CodexHomeFrom, "CODEX_HOME="+h.w().CodexHomeFrom+" codex login")

	// The user's login counts, and so does one made in the private home; neither
	// is shown.
	auth := filepath.Join(h.w().CodexHomeFrom, "auth.json")
	write(t, auth, `{"token":"secret"}`, 0o600)
	wants(t, h.check(doctor.Login), doctor.OK, "", "")
	if err := os.Remove(auth); err != nil {
		t.Fatal(err)
	}
	private := filepath.Join(h.w().State, "codex-home")
	mkdir(t, private)
	write(t, filepath.Join(private, "auth.json"), `{"token":"secret"}`, 0o600)
	c := h.check(doctor.Login)
	wants(t, c, doctor.OK, "", "")
	if strings.Contains(c.Found, "secret") {
		t.Errorf("shows %q", c.Found)
	}

	// What the running service knows comes first.
	h = newHouse(t)
	h.serving(func(s *supervisor.WorkDirStatus) {
		s.Child.State, s.Child.Reason, s.Child.Detail = supervisor.ChildHeld, reason.LoginMissing, "run codex login"
	})
	r := h.run(t.Context())
	wants(t, find(t, r, doctor.Login), doctor.Fail, "the service's child has no login", "codex login")
	wants(t, find(t, r, doctor.ServiceState), doctor.Fail, "the child is held: login_missing run codex login", "status")
	h.serving(nil)
	h.w().Env = append(h.w().Env, "STUB_NO_LOGIN=1")
	wants(t, h.check(doctor.Login), doctor.OK, "the service's child is logged in", "")
}

func TestCodex_Homes(t *testing.T) {
	for _, mode := range []string{"inherit", "path"} {
		h := newHouse(t)
		home := h.w().CodexHomeFrom
		if mode == "path" {
			home = filepath.Join(h.dir, "other")
			mkdir(t, home)
			mode = home
		}
		h.w().CodexHome = mode
		wants(t, h.check(doctor.Confinement), doctor.OK, "none of the canaries", "")
		write(t, filepath.Join(home, "AGENTS.md"), "be kind", 0o600)
		wants(t, h.check(doctor.Confinement), doctor.Fail, home+"/AGENTS.md stands in every guest's prompt", `codex_home = "private"`)
		h.w().CodexHome = "private"
		wants(t, h.check(doctor.Confinement), doctor.OK, "", "")
	}
}

func TestCodex_SandboxWorks(t *testing.T) {
	says := func(reply rpc.CommandExecReply, err error) func([]string, sandbox.ExecFunc) sandbox.ExecFunc {
		return func([]string, sandbox.ExecFunc) sandbox.ExecFunc {
			return func(context.Context, rpc.CommandExecParams) (rpc.CommandExecReply, error) { return reply, err }
		}
	}
	for name, tc := range map[string]struct {
		wrap       func([]string, sandbox.ExecFunc) sandbox.ExecFunc
		found, try string
	}{
		"NoNamespaces": {says(rpc.CommandExecReply{ExitCode: 1, Stderr: "bwrap: No permissions to create new namespace"}, nil), "(exit 1): bwrap: No permissions", "user namespaces"},
		"Error":        {says(rpc.CommandExecReply{}, errors.New("exec refused")), "no command runs: exec refused", ""},
		"OtherText":    {says(rpc.CommandExecReply{Stdout: "else"}, nil), "(exit 0)", ""},
		"Unknown":      {says(rpc.CommandExecReply{}, &rpc.Error{Method: "command/exec", Code: rpc.CodeMethodNotFound}), "is it Codex?", "npm install"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.wrap = tc.wrap
			r := h.run(t.Context())
			wants(t, find(t, r, doctor.SandboxWorks), doctor.Fail, tc.found, tc.try)
			wants(t, find(t, r, doctor.Confinement), doctor.Fail, "guests are refused", "mend sandbox_works first")
		})
	}
	// The child's own command/exec, and codex sandbox where that is refused. The
	// stub runs no shell, so nothing is proven: that must not hold.
	for _, env := range []string{"STUB_X=", "STUB_NO_EXPERIMENTAL=1"} {
		h := newHouse(t)
		h.wrap, h.w().Env = nil, append(h.w().Env, env)
		r := h.run(t.Context())
		wants(t, find(t, r, doctor.SandboxWorks), doctor.OK, "reads a file", "")
		wants(t, find(t, r, doctor.Confinement), doctor.Fail, "not proven", "do not let guests in")
	}
}

func TestCodex_Confinement(t *testing.T) {
	h := newHouse(t)
	h.wrap = func(env []string, exec sandbox.ExecFunc) sandbox.ExecFunc {
		exec = confining(env, exec)
		return func(ctx context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
			if p.Command[0] != "cat" {
				p.PermissionProfile = ":danger-full-access"
			}
			return exec(ctx, p)
		}
	}
	wants(t, h.check(doctor.Confinement), doctor.Fail, "a guest reads the work dir", "do not let guests in")

	h.wrap = func(env []string, exec sandbox.ExecFunc) sandbox.ExecFunc {
		exec = confining(env, exec)
		return func(ctx context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
			if p.Command[0] != "cat" {
				return rpc.CommandExecReply{}, errors.New("exec refused")
			}
			return exec(ctx, p)
		}
	}
	wants(t, h.check(doctor.Confinement), doctor.Fail, "exec refused", "mend what it says")

	h.wrap = confining
	disabled := supervisor.TierOptions{Disabled: true}
	h.w().Tiers = map[task.Tier]supervisor.TierOptions{task.Team: disabled, task.Guest: disabled, task.Ambient: disabled}
	wants(t, h.check(doctor.Confinement), doctor.OK, "only owners", "")
}

func TestCodex_ConfinementAsRoot(t *testing.T) {
	h := newHouse(t)
	h.opt.UID = 0
	wants(t, h.check(doctor.Confinement), doctor.Fail, "guests_as_root", "sudo -u USER codex-supervisor doctor")
	h.serving(nil)
	wants(t, h.check(doctor.Confinement), doctor.OK, "proven by the running service", "")
	h.serving(func(s *supervisor.WorkDirStatus) {
		s.Guests = supervisor.GuestStatus{Reason: reason.GuestsUnconfined, Detail: "a guest reads CODEX_HOME"}
	})
	r := h.run(t.Context())
	wants(t, find(t, r, doctor.Confinement), doctor.Fail, "the running service says: guests_unconfined a guest reads CODEX_HOME", "")
	wants(t, find(t, r, doctor.ServiceState), doctor.Fail, "guests are refused: guests_unconfined", "see confinement")
	h.opt.Service = nil
	h.w().UnsafeRootGuests = true
	wants(t, h.check(doctor.Confinement), doctor.Warn, "the probe holds, but guests run as root", "as a user of its own")
}
