package doctor_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// realHouse is one whose Codex is the real one.
func realHouse(t *testing.T) *house {
	t.Helper()
	binary := os.Getenv("CODEX_BINARY")
	if binary == "" {
		if os.Getenv("CODEX_E2E") == "require" {
			t.Fatal("CODEX_E2E=require, but CODEX_BINARY names no codex")
		}
		t.Skip("CODEX_BINARY is not set: the real Codex is not tested (`make test` installs it)")
	}
	h := newHouse(t)
	h.wrap, h.w().Codex, h.w().Env = nil, []string{binary}, nil
	return h
}

// modelled gives a house a model provider that needs no login.
func modelled(t *testing.T, h *house, more string) *model.Server {
	t.Helper()
	m, err := model.New(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	write(t, h.w().CodexHomeFrom+"/config.toml", m.ConfigTOML()+more, 0o600)
	return m
}

func TestReal_AllHolds(t *testing.T) {
	h := realHouse(t)
	ran := h.dir + "/ran"
	m := modelled(t, h, "\n[mcp_servers.one]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"touch "+ran+"\"]\n")
	for _, mode := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite, sandbox.FullAccess} {
		h.w().Sandbox = mode
		r := h.run(t.Context())
		for _, c := range r.Checks {
			switch {
			case c.ID == doctor.ServiceState:
				wants(t, c, doctor.Warn, "no service runs", "")
			case c.ID == doctor.NofileLimit, c.ID == doctor.InotifyLimits: // of whatever machine this is
			case c.Status != doctor.OK:
				t.Errorf("%s: %+v", mode, c)
			}
		}
		if !r.OK {
			t.Errorf("%s: not ok", mode)
		}
		wants(t, find(t, r, doctor.Login), doctor.OK, "none is needed", "")
		h.serving(nil)
		wants(t, h.check(doctor.ServiceState), doctor.OK, "child ready", "")
		h.opt.Service = nil
	}
	if n := m.Total(); n != 0 {
		t.Errorf("the model was asked %d times", n)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("an MCP server of the user's was started")
	}
}

// A guest's profile that is not in force has to be seen, on the real sandbox.
func TestReal_ProbeBrokenOnPurpose(t *testing.T) {
	h := realHouse(t)
	modelled(t, h, "")
	for said, profile := range map[string]string{
		"a guest reads the work dir": ":read-only", "a guest reads the": ":danger-full-access", "run the probe as a guest": "no-such-profile",
	} {
		h.wrap = func(_ []string, exec sandbox.ExecFunc) sandbox.ExecFunc {
			return func(ctx context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
				if strings.HasPrefix(p.PermissionProfile, "guest_") {
					p.PermissionProfile = profile
				}
				return exec(ctx, p)
			}
		}
		r := h.run(t.Context())
		wants(t, find(t, r, doctor.Confinement), doctor.Fail, said, "")
		wants(t, find(t, r, doctor.SandboxWorks), doctor.OK, "", "")
		if r.OK {
			t.Errorf("%s: ok", profile)
		}
	}
}

func TestReal_LoginAndConfig(t *testing.T) {
	h := realHouse(t)
	wants(t, h.check(doctor.Login), doctor.Fail, "no login in", "codex login")
	write(t, h.w().CodexHomeFrom+"/config.toml", "model = [\n", 0o600)
	c := h.check(doctor.CodexConfigLoads)
	wants(t, c, doctor.Fail, h.w().CodexHomeFrom+"/config.toml:1:", "mend ")
}
