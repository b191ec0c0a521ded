package sandbox_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func asJSON(tb testing.TB, v any) string {
	tb.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

func TestChild_OwnerParameters(t *testing.T) {
	o, dir := options(t)
	o.Cwd, o.Model, o.DeveloperInstructions = dir+"/free", "m-1", "be brief"
	c := mustNew(t, o).NewChild()
	start, resume := c.OwnerStart(), c.OwnerResume("t-1")
	id, _ := start.Config["default_permissions"].(string)
	want := `{"cwd":"` + dir + `/free","approvalPolicy":"never","model":"m-1","developerInstructions":"be brief",` +
		`"config":{"allow_login_shell":false,"default_permissions":"` + id + `","features":{"shell_snapshot":false}}}`
	if got := asJSON(t, start); got != want || !strings.HasPrefix(id, "owner_") {
		t.Errorf("start\n got %s\nwant %s", got, want)
	}
	want = strings.Replace(want, `{"cwd"`, `{"threadId":"t-1","cwd"`, 1)
	want = strings.TrimSuffix(want, "}") + `,"excludeTurns":true}`
	if got := asJSON(t, resume); got != want {
		t.Errorf("resume\n got %s\nwant %s", got, want)
	}
	o.ShellEnv, o.Mode = sandbox.ShellEnvLogin, sandbox.FullAccess
	if got := asJSON(t, mustNew(t, o).NewChild().OwnerStart().Config); got != `{"default_permissions":":danger-full-access"}` {
		t.Errorf("login shell, full access: %s", got)
	}
}

func TestChild_GuestParameters(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite, sandbox.FullAccess} {
		o, _ := options(t)
		o.Mode, o.Model, o.ShellEnv, o.DeveloperInstructions = mode, "m-1", sandbox.ShellEnvLogin, "owner words"
		o.TierModel = map[task.Tier]string{task.Ambient: "m-2"}
		c := mustNew(t, o).NewChild()
		for _, tier := range []task.Tier{task.Team, task.Guest, task.Ambient} {
			p := c.GuestStart(tier, "/rooms/r1/", []string{"a", "b.c"})
			if p.Cwd != "/rooms/r1" || p.ApprovalPolicy != "never" || !p.Ephemeral || p.Sandbox != "" {
				t.Errorf("%s: %+v", tier, p)
			}
			if p.BaseInstructions == "" || p.DeveloperInstructions == "" || strings.Contains(asJSON(t, p), "owner words") {
				t.Errorf("%s: instructions %q %q", tier, p.BaseInstructions, p.DeveloperInstructions)
			}
			if want := map[bool]string{true: "m-2", false: "m-1"}[tier == task.Ambient]; p.Model != want {
				t.Errorf("%s: model %s", tier, p.Model)
			}
			config := asJSON(t, p.Config)
			for _, want := range []string{
				`"notify":[]`, `"project_root_markers":[]`, `"project_doc_max_bytes":0`, `"web_search":"disabled"`,
				`"skills":{"include_instructions":false}`, `"mcp_servers":{"a":{"enabled":false},"b.c":{"enabled":false}}`,
				`"allow_login_shell":false`, `"inherit":"core"`, `"default_permissions":"guest_`,
			} {
				if !strings.Contains(config, want) {
					t.Errorf("%s: config lacks %s: %s", tier, want, config)
				}
			}
			features := p.Config["features"].(map[string]any)
			for _, name := range []string{"apps", "plugins", "multi_agent", "goals", "hooks", "memories", "image_generation", "shell_snapshot"} {
				if features[name] != false {
					t.Errorf("%s: feature %s is %v", tier, name, features[name])
				}
			}
			shell := p.Config["shell_environment_policy"].(map[string]any)
			set := shell["set"].(map[string]any)
			for _, name := range shell["include_only"].([]any) {
				if _, ok := set[name.(string)]; !ok {
					t.Errorf("%s: %v is let through without a value of ours", tier, name)
				}
			}
		}
	}
	o, _ := options(t)
	if _, there := mustNew(t, o).NewChild().GuestStart(task.Guest, "/r", nil).Config["mcp_servers"]; there {
		t.Error("an empty table of servers is sent")
	}
}

func good(c *sandbox.Child, cwd string, ephemeral bool, profile, extends, kind string) rpc.ThreadReply {
	return rpc.ThreadReply{
		Cwd: cwd, ApprovalPolicy: json.RawMessage(`"never"`), Thread: rpc.Thread{Ephemeral: ephemeral},
		Sandbox:                 rpc.SandboxInfo{Type: kind, NetworkAccess: false},
		ActivePermissionProfile: &rpc.ProfileRef{ID: profile, Extends: extends},
	}
}

// changes are the single differences that no thread may pass with.
var changes = map[string]func(*rpc.ThreadReply){
	"activePermissionProfile.id":      func(r *rpc.ThreadReply) { r.ActivePermissionProfile = &rpc.ProfileRef{ID: ":read-only"} },
	"activePermissionProfile.id ":     func(r *rpc.ThreadReply) { r.ActivePermissionProfile = nil },
	"activePermissionProfile.extends": func(r *rpc.ThreadReply) { r.ActivePermissionProfile.Extends = ":danger-full-access" },
	"sandbox.type":                    func(r *rpc.ThreadReply) { r.Sandbox.Type = "dangerFullAccess" },
	"sandbox.networkAccess":           func(r *rpc.ThreadReply) { r.Sandbox.NetworkAccess = true },
	"sandbox.networkAccess ":          func(r *rpc.ThreadReply) { r.Sandbox.NetworkAccess = nil },
	"sandbox.networkAccess  ":         func(r *rpc.ThreadReply) { r.Sandbox.NetworkAccess = "enabled" },
	"approvalPolicy":                  func(r *rpc.ThreadReply) { r.ApprovalPolicy = json.RawMessage(`"on-request"`) },
	"approvalPolicy ":                 func(r *rpc.ThreadReply) { r.ApprovalPolicy = json.RawMessage(`{"never":true}`) },
	"approvalPolicy  ":                func(r *rpc.ThreadReply) { r.ApprovalPolicy = nil },
	"thread.ephemeral":                func(r *rpc.ThreadReply) { r.Thread.Ephemeral = !r.Thread.Ephemeral },
	"cwd":                             func(r *rpc.ThreadReply) { r.Cwd = "/" },
	"cwd ":                            func(r *rpc.ThreadReply) { r.Cwd = "" },
}

func TestChild_CheckGuest(t *testing.T) {
	o, dir := options(t)
	o.Read = map[task.Tier][]string{task.Team: {dir + "/free"}}
	c := mustNew(t, o).NewChild()
	room := dir + "/free"
	id := func(tier task.Tier) string {
		return c.GuestStart(tier, room, nil).Config["default_permissions"].(string)
	}
	team := id(task.Team)
	guest := id(task.Guest) // the newest start counts
	check := func(name string, r rpc.ThreadReply) {
		t.Helper()
		err := c.CheckGuest(r, room)
		var m *sandbox.Mismatch
		if !errors.As(err, &m) || m.Field != strings.TrimSpace(name) {
			t.Errorf("%q: %v", name, err)
		}
	}
	for name, change := range changes {
		r := good(c, room, true, guest, "", "readOnly")
		change(&r)
		check(name, r)
	}
	check("activePermissionProfile.id", good(c, room, true, team, "", "readOnly"))
	withSource := good(c, room, true, guest, "", "readOnly")
	withSource.InstructionSources = []string{"/h/AGENTS.md"}
	check("instructionSources", withSource)
	if err := c.CheckGuest(good(c, room, true, guest, "", "readOnly"), room+"/"); err != nil {
		t.Error(err)
	}
	// Asked once, checked once: a second thread in the same room is another's.
	check("room", good(c, room, true, guest, "", "readOnly"))
}

func TestChild_CheckOwner(t *testing.T) {
	for mode, want := range map[sandbox.Mode][2]string{
		sandbox.ReadOnly: {":read-only", "readOnly"}, sandbox.WorkspaceWrite: {":workspace", "workspaceWrite"}, sandbox.FullAccess: {"", "dangerFullAccess"},
	} {
		o, dir := options(t)
		o.Mode = mode
		mustSymlink(t, dir+"/work", dir+"/alias")
		o.Cwd = dir + "/alias"
		c := mustNew(t, o).NewChild()
		id := c.OwnerStart().Config["default_permissions"].(string)
		reply := func() rpc.ThreadReply { return good(c, dir+"/work", false, id, want[0], want[1]) }
		if err := c.CheckOwner(reply()); err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		for name, change := range changes {
			r := reply()
			change(&r)
			if slices.Contains([]string{"sandbox.type", "sandbox.networkAccess", "sandbox.networkAccess ", "sandbox.networkAccess  "}, name) && mode == sandbox.FullAccess {
				continue // full access says nothing about the network, and cannot be wider
			}
			var m *sandbox.Mismatch
			if err := c.CheckOwner(r); !errors.As(err, &m) || m.Field != strings.TrimSpace(name) || !strings.Contains(err.Error(), m.Got) {
				t.Errorf("%s, %q: %v", mode, name, err)
			}
		}
	}
}
