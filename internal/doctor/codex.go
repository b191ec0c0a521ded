package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// asked are the checks that need a child to answer.
func asked() []ID { return []ID{CodexConfigLoads, Login, SandboxWorks, Confinement} }

// codex looks at the program, and asks a temporary child of it what cannot be
// seen from outside.
func (d *doctor) codex(ctx context.Context, w WorkDir) []Check {
	checks := []Check{found(w)}
	if checks[0].Status == Fail {
		for _, id := range append([]ID{BinaryNative, BinaryVersion}, asked()...) {
			checks = append(checks, unseen(id, "no codex was found"))
		}
		return checks
	}
	checks = append(checks, native(w))
	version := d.version(ctx, w)
	checks = append(checks, version)
	if version.Status == Fail {
		for _, id := range asked() {
			checks = append(checks, unseen(id, "this codex cannot be used"))
		}
		return checks
	}
	return append(checks, d.ask(ctx, w)...)
}

func (d *doctor) ask(ctx context.Context, w WorkDir) (checks []Check) {
	why := "see codex_config_loads"
	defer func() {
		for _, id := range asked() {
			if !has(checks, id) {
				checks = append(checks, unseen(id, why))
			}
		}
	}()
	if info, err := os.Stat(w.Path); err != nil || !info.IsDir() {
		why = "there is no work dir"
		return nil
	}
	h, err := d.build(w)
	if err != nil {
		return []Check{h.broken(err)}
	}
	defer h.remove()
	p, err := d.start(w, h)
	if err != nil {
		return []Check{fail(CodexConfigLoads, "run it by hand as this user: "+w.Codex[0]+" app-server", "codex does not start: %s", oneLine(err.Error(), 300))}
	}
	defer p.stop()
	checks = append(checks, p.loads(ctx, w, d.patience))
	if checks[0].Status == Fail {
		return checks // whatever else it says now is about a configuration that is not used
	}
	works := p.sandbox(ctx)
	return append(checks, d.login(ctx, w, p), works, d.confinement(ctx, w, p, works.Status == OK))
}

func has(checks []Check, id ID) bool {
	for _, c := range checks {
		if c.ID == id {
			return true
		}
	}
	return false
}

// broken is a house that cannot be built.
func (h *house) broken(err error) Check {
	var option *sandbox.OptionError
	var path *sandbox.ReadPathError
	try := "check who owns the files in the user's CODEX_HOME; codex_home_from names another"
	if errors.As(err, &option) || errors.As(err, &path) {
		try = "change it in the configuration"
	}
	return fail(CodexConfigLoads, try, "%s", oneLine(h.words(plain(err)), 300))
}

// loads brings the child up and opens a thread, which is where a configuration
// that Codex cannot read shows. No turn is started, and no MCP server or hook of
// the user's: what they do is not for a doctor to cause.
func (p *patient) loads(ctx context.Context, w WorkDir, patience time.Duration) Check {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	user := filepath.Join(p.house.home.From, "config.toml")
	_, err := p.client.Initialize(ctx, rpc.InitializeParams{
		ClientInfo:   rpc.ClientInfo{Name: "codex-supervisor", Title: "codex-supervisor doctor", Version: "1"},
		Capabilities: &rpc.Capabilities{ExperimentalAPI: true},
	})
	byHand := "run it by hand as this user: " + w.Codex[0] + " app-server"
	if err != nil {
		return fail(CodexConfigLoads, byHand, "codex does not come up: %s", p.said(err))
	}
	start := p.house.child.OwnerStart()
	if config, err := p.client.ConfigRead(ctx, rpc.ConfigReadParams{Cwd: start.Cwd}); err == nil {
		off := map[string]any{}
		for _, name := range config.MCPServers() {
			off[name] = map[string]any{"enabled": false}
		}
		if len(off) > 0 {
			start.Config["mcp_servers"] = off
		}
	}
	features, _ := start.Config["features"].(map[string]any)
	if features == nil {
		features = map[string]any{}
	}
	features["hooks"] = false
	start.Config["features"] = features
	reply, err := p.client.ThreadStart(ctx, start)
	switch {
	case rpc.FaultOf(err) == rpc.FaultConfig || err != nil && p.configWarning() != "":
		why := p.said(err)
		if said := p.configWarning(); said != "" {
			why = said
		}
		why = oneLine(p.house.words(why), 300)
		return fail(CodexConfigLoads, "mend "+user+"; `codex` itself says where it is wrong", "Codex cannot load its config.toml: %s", why)
	case err != nil:
		return fail(CodexConfigLoads, byHand, "codex opens no thread: %s", p.said(err))
	}
	if err := p.house.child.CheckOwner(reply); err != nil {
		return fail(CodexConfigLoads, "look for what sets it in "+user+" and in managed configuration (/etc/codex)", "owners are refused: %s", p.said(err))
	}
	if _, err := os.Stat(user); errors.Is(err, fs.ErrNotExist) {
		return ok(CodexConfigLoads, "no config.toml; Codex's defaults")
	}
	return ok(CodexConfigLoads, "%s", user)
}

// login believes the running service first: it is its child that answers tasks.
func (d *doctor) login(ctx context.Context, w WorkDir, p *patient) Check {
	home := p.house.home.From
	try := "as the service's user: CODEX_HOME=" + home + " codex login"
	if s := d.served(w); s != nil {
		switch {
		case s.Child.Reason == reason.LoginMissing:
			return fail(Login, try, "the service's child has no login: %s", oneLine(s.Child.Detail, 200))
		case s.Child.State == supervisor.ChildReady:
			return ok(Login, "the service's child is logged in")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	account, err := p.client.AccountRead(ctx, rpc.AccountReadParams{})
	switch {
	case err != nil:
		return fail(Login, try, "codex does not say: %s", p.said(err))
	case account.LoginMissing():
		return fail(Login, try, "no login in %s", home)
	case account.Account == nil:
		return ok(Login, "none is needed for the model provider")
	}
	text := "logged in: " + oneLine(account.Account.Type, 30)
	if plan := account.Account.PlanType; plan != "" {
		text += ", plan " + oneLine(plan, 30)
	}
	return ok(Login, "%s", text)
}

// sandbox runs one harmless command in Codex's plain read-only sandbox. It
// separates a machine on which no sandbox works from a profile that is wrong.
func (p *patient) sandbox(ctx context.Context) Check {
	ctx, cancel := context.WithTimeout(ctx, sandboxTime)
	defer cancel()
	const word = "sandbox-works-here"
	file := filepath.Join(p.house.dir, "sandbox.txt")
	if err := os.WriteFile(file, []byte(word+"\n"), 0o600); err != nil {
		return fail(SandboxWorks, "see dirs_writable", "%s", plain(err))
	}
	reply, err := p.exec(ctx, rpc.CommandExecParams{
		Command: []string{"cat", file}, Cwd: p.house.dir, PermissionProfile: ":read-only", TimeoutMs: sandboxTime.Milliseconds(),
	})
	switch {
	case rpc.FaultOf(err) == rpc.FaultUnknownMethod:
		return fail(SandboxWorks, installCodex, "this codex cannot run a command to prove it (command/exec): is it Codex?")
	case err != nil:
		return fail(SandboxWorks, sandboxHint(), "no command runs: %s", p.said(err))
	case strings.TrimSpace(reply.Stdout) != word:
		return fail(SandboxWorks, sandboxHint(), "a sandboxed command fails (exit %d): %s", reply.ExitCode, oneLine(reply.Stderr, 200))
	}
	return ok(SandboxWorks, "a sandboxed command reads a file")
}

const asUser = "run the service, and doctor, as a user of its own: sudo -u USER codex-supervisor doctor"

// confinement proves what the service proves at every start, on a child with
// the same policy.
func (d *doctor) confinement(ctx context.Context, w WorkDir, p *patient, sandboxWorks bool) Check {
	if !guestsWanted(w) {
		return ok(Confinement, "not needed: only owners are served")
	}
	root := d.UID == 0 && !w.StubChild
	if root && !w.UnsafeRootGuests {
		if s := d.served(w); s != nil && s.Guests.Confined {
			return ok(Confinement, "proven by the running service, which does not run as root")
		} else if s != nil && s.Guests.Reason != reason.GuestsAsRoot {
			return fail(Confinement, asUser, "the running service says: %s", strings.TrimSpace(s.Guests.Reason.String()+" "+oneLine(s.Guests.Detail, 200)))
		}
		return fail(Confinement, asUser, "%s: as root guests are refused, since no sandbox binds root", reason.GuestsAsRoot)
	}
	if !sandboxWorks {
		return fail(Confinement, "mend sandbox_works first; until then only owners are served", "not proven: guests are refused")
	}
	if w.CodexHome != sandbox.HomePrivate && w.CodexHome != "" {
		home := p.house.home.From
		if w.CodexHome != sandbox.HomeInherit {
			home = w.CodexHome
		}
		for _, name := range []string{"AGENTS.override.md", "AGENTS.md"} {
			if path := filepath.Join(home, name); exists(path) {
				return fail(Confinement, `codex_home = "private", or move it away`, "%s stands in every guest's prompt: guests are refused", path)
			}
		}
	}
	if err := p.house.child.Probe(ctx, p.exec); err != nil {
		try := "do not let guests in; see sandbox_works, then the release notes of this codex version"
		var unproven *sandbox.Unproven
		if !errors.As(err, &unproven) {
			try = "mend what it says; until then only owners are served"
		}
		return fail(Confinement, try, "%s", p.said(err))
	}
	if err := p.guest(ctx); err != nil {
		return fail(Confinement, "look for what sets it in config.toml and in managed configuration (/etc/codex)", "a guest's thread is not what was asked for: %s", p.said(err))
	}
	if root {
		return warn(Confinement, asUser, "the probe holds, but guests run as root (unsafe_root_guests)")
	}
	return ok(Confinement, "a guest reads its room and none of the canaries")
}

// guest opens a guest's thread, without a turn, and compares what is in force.
func (p *patient) guest(ctx context.Context) error {
	rooms, err := sandbox.OpenRooms(sandbox.RoomsDir(p.house.dir), sandbox.Limits{})
	if err != nil {
		return err
	}
	room, err := rooms.Create(ctx, nil, nil)
	if err != nil {
		return err
	}
	config, err := p.client.ConfigRead(ctx, rpc.ConfigReadParams{Cwd: room.Dir})
	if err != nil {
		return err
	}
	reply, err := p.client.ThreadStart(ctx, p.house.child.GuestStart(task.Guest, room.Dir, config.MCPServers()))
	if err != nil {
		return fmt.Errorf("open a guest's thread: %w", err)
	}
	return p.house.child.CheckGuest(reply, room.Dir)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
