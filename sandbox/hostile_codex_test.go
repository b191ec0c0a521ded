package sandbox_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// hostile is a user's own configuration that would reach a guest in every way
// found. MARK stands for a directory of the user's.
const hostile = `notify = ["/bin/sh", "-c", "echo notified >MARK/notified"]
developer_instructions = "hostile-developer"
instructions = "hostile-instructions"
model_instructions_file = "instructions.md"
web_search = "live"
project_doc_fallback_filenames = ["attachment-1.txt", "README.md"]
approval_policy = "on-request"
sandbox_mode = "danger-full-access"
personality = "friendly"

[shell_environment_policy]
inherit = "all"
[shell_environment_policy.set]
HOSTILE_SECRET = "hostile-environment"
PATH = "/hostile-environment:/usr/bin:/bin"
HOME = "/hostile-environment"

[features]
memories = true
multi_agent_v2 = true
goals = true
web_search_request = true
sleep_tool = true
request_permissions_tool = true
code_mode = true

[tools]
web_search = true

[mcp_servers.hostile-mcp]
command = "/bin/sh"
args = ["-c", "echo started >>MARK/mcp; exec MARK/mcp.sh"]

[mcp_servers."odd name.x"]
command = "/bin/sh"
args = ["-c", "echo started >>MARK/mcp; sleep 1"]

[permissions.guest]
filesystem = { ":root" = "read" }
[permissions.guest.network]
enabled = true
`

func TestCodex_HostileConfigLeaksNothing(t *testing.T) {
	h := newHouse(t, "", nil)
	mark := h.user
	mustWrite(t, mark+"/instructions.md", "hostile-model-instructions")
	mustWrite(t, mark+"/AGENTS.md", "hostile-agents")
	mustWrite(t, mark+"/skills/hostile/SKILL.md", "---\nname: hostile-skill\ndescription: hostile-skill-description\n---\nhostile-skill-body\n")
	text := strings.ReplaceAll(hostile, "MARK", mark)
	mustWrite(t, h.user+"/config.toml", topKeys(text)+h.model.ConfigTOML()+tables(text))
	var err error
	if h.home, err = sandbox.PrepareHome(sandbox.HomeOptions{From: h.user, State: h.state}); err != nil {
		t.Fatal(err)
	}
	h.opts.DeveloperInstructions = h.home.Instructions
	// The room lies below a repository that the user trusts.
	// (An empty .git is none to codex.)
	if out, err := exec.Command("git", "init", "-q", h.state).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	mustWrite(t, h.state+"/.codex/config.toml", "developer_instructions = \"hostile-project\"\n[mcp_servers.hostile-project-mcp]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo started >>"+mark+"/project-mcp\"]\n")
	mustWrite(t, h.home.Dir+"/config.toml", read(t, h.home.Dir+"/config.toml")+"\n[projects.\""+h.state+"\"]\ntrust_level = \"trusted\"\n")
	mustWrite(t, h.dir+"/uploads/AGENTS.md", "hostile-attachment")
	mustWrite(t, h.work+"/secret.txt", workCanary)
	for _, name := range []string{".bashrc", ".bash_profile", ".profile"} {
		mustWrite(t, h.user+"/"+name, "echo x >"+mark+"/shell-start\n")
	}

	child := h.policy().NewChild()
	c := h.start(child)
	room := h.room(task.Attachment{Locator: h.dir + "/uploads/AGENTS.md", Filename: "AGENTS.md"})
	servers := c.mcpServers(room.Dir)
	for _, name := range []string{"hostile-mcp", "odd name.x", "hostile-project-mcp"} {
		if !slices.Contains(servers, name) {
			t.Fatalf("config/read names %q, not %s", servers, name)
		}
	}
	// The project's servers must stay off even where nobody has named them.
	servers = slices.DeleteFunc(servers, func(name string) bool { return name == "hostile-project-mcp" })
	mustWrite(t, room.Dir+"/AGENTS.md", "hostile-room-agents")
	reply := c.threadStart(child.GuestStart(task.Guest, room.Dir, servers))
	if err := child.CheckGuest(reply, room.Dir); err != nil {
		t.Fatal(err)
	}
	got := c.turn(reply.Thread.ID, "[[sh env]] [[sh ls attachments]] [[sh cat "+h.work+"/secret.txt]]")
	if strings.Contains(got, workCanary) {
		t.Errorf("the user's profile of a like name opened reads: %q", got)
	}
	if !strings.Contains(got, "attachment-1.md") || !strings.Contains(got, "HOME="+room.Dir) {
		t.Errorf("the turn did not run as meant: %q", got)
	}
	requests := h.model.Requests()
	if len(requests) == 0 {
		t.Fatal("no model request")
	}
	for _, req := range requests {
		if strings.Contains(string(req.Raw), "hostile") {
			at := strings.Index(string(req.Raw), "hostile")
			t.Errorf("request %d holds: ...%s...", req.N, req.Raw[max(0, at-80):min(len(req.Raw), at+120)])
		}
		want := []string{"exec_command", "write_stdin", "request_user_input", "view_image"}
		for _, tool := range req.Tools {
			if !slices.Contains(want, tool) {
				t.Errorf("the guest is offered %s", tool)
			}
		}
	}
	for _, name := range []string{"notified", "mcp", "project-mcp", "shell-start"} {
		if exists(mark + "/" + name) {
			t.Errorf("a program of the user's ran for a guest: %s", name)
		}
	}

	// The positive control: an owner's thread on the same child has most of it.
	owner := c.threadStart(child.OwnerStart())
	c.turn(owner.Thread.ID, "hello")
	seen := last(h.model.Requests())
	for _, word := range []string{"hostile-agents", "hostile-developer", "hostile-model-instructions", "hostile-skill"} {
		if !seen.Has(word) {
			t.Errorf("an owner's request lacks %s: the guest's check proves nothing", word)
		}
	}
	if !exists(mark + "/mcp") {
		t.Error("the MCP server did not start for an owner either")
	}
}

func TestCodex_CheckSeesADifference(t *testing.T) {
	h := newHouse(t, "", nil)
	child := h.policy().NewChild()
	c := h.start(child)
	for field, change := range map[string]func(*rpc.ThreadStartParams){
		"activePermissionProfile.id": func(p *rpc.ThreadStartParams) { p.Sandbox = "read-only" },
		"thread.ephemeral":           func(p *rpc.ThreadStartParams) { p.Ephemeral = false },
		"approvalPolicy":             func(p *rpc.ThreadStartParams) { p.ApprovalPolicy = "on-request" },
		"cwd":                        func(p *rpc.ThreadStartParams) { p.Cwd = h.work },
	} {
		room := h.room().Dir
		p := child.GuestStart(task.Guest, room, nil)
		change(&p)
		var m *sandbox.Mismatch
		if err := child.CheckGuest(c.threadStart(p), room); !errors.As(err, &m) || m.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	// A CODEX_HOME with personal instructions, as with codex_home = "inherit".
	mustWrite(t, h.home.Dir+"/AGENTS.md", "personal")
	d := h.start(child)
	room := h.room().Dir
	var m *sandbox.Mismatch
	if err := child.CheckGuest(d.threadStart(child.GuestStart(task.Guest, room, nil)), room); !errors.As(err, &m) || m.Field != "instructionSources" {
		t.Errorf("instruction sources: %v", err)
	}
}

func last(reqs []model.Request) model.Request { return reqs[len(reqs)-1] }

func read(tb testing.TB, path string) string {
	tb.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}
