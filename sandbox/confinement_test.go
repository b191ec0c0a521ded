package sandbox_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// The canaries of the house. A guest's answer holding one of them is a leak.
const (
	workCanary   = "work-canary-5b1f"
	homeCanary   = "home-canary-77ae"
	otherCanary  = "other-room-canary-01c9"
	denyCanary   = "deny-canary-c44d"
	envCanary    = "env-canary"
	readableText = "tier-readable-9d20"
	roomText     = "this-room-4f0a"
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

// furnish puts the canaries into the house and returns a guest's room with one
// attachment.
func furnish(t *testing.T, h *house) sandbox.Room {
	t.Helper()
	mustWrite(t, h.work+"/secret.txt", workCanary)
	mustWrite(t, h.work+"/results/task-1.txt", workCanary)
	mustWrite(t, h.home.Dir+"/secret.txt", homeCanary)
	mustWrite(t, h.user+"/secret.txt", homeCanary)
	mustWrite(t, h.state+"/ledger.db", workCanary)
	mustWrite(t, h.room().Dir+"/secret.txt", otherCanary)
	mustWrite(t, h.dir+"/uploads/hello.txt", roomText)
	return h.room(task.Attachment{Locator: h.dir + "/uploads/hello.txt", Filename: "hello.txt"})
}

func TestCodex_GuestReadsItsRoomOnly(t *testing.T) {
	var weird string
	h := newHouse(t, "", func(h *house) {
		// Spaces, quotes, a backslash and non-ASCII have to survive two levels
		// of quoting.
		weird = h.dir + `/read "me" ü\n 'too'`
		mustWrite(t, weird+"/f.txt", readableText)
		mustWrite(t, weird+"/key", denyCanary)
		h.opts.Read = map[task.Tier][]string{task.Team: {weird}}
		h.opts.Deny = []string{weird + "/key"}
		h.opts.Mode = sandbox.FullAccess
	})
	room := furnish(t, h)
	child := h.policy().NewChild()
	c := h.start(child)
	// An owner with full access is busy on the same child: nothing of its
	// policy may reach a guest.
	owner := c.threadStart(child.OwnerStart())
	if err := child.CheckOwner(owner); err != nil {
		t.Fatal(err)
	}
	c.turn(owner.Thread.ID, "[[remember owners-word]]")

	unix, err := net.Listen("unix", filepath.Join(room.Dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()

	quoted := `'` + strings.ReplaceAll(weird, `'`, `'\''`) + `'`
	attempts := []string{
		"cat " + h.work + "/secret.txt", "cat ../../../work/secret.txt", "cat " + h.work + "/results/*",
		"cat " + h.home.Dir + "/secret.txt", "cat " + h.home.Dir + "/config.toml", "cat " + h.user + "/secret.txt",
		"cat " + h.state + "/ledger.db", "cat ../*/secret.txt", "grep -r canary .. /home /root /var/lib 2>/dev/null",
		"env", "cat /proc/*/environ", "cat /proc/*/root" + h.work + "/secret.txt", "timeout 1 cat /proc/self/fd/[3-9] </dev/null",
		"ln -s " + h.work + "/secret.txt /tmp/l && cat /tmp/l", "ln " + h.work + "/secret.txt /tmp/h; cat /tmp/h",
		"git -C " + h.work + " log; git --git-dir=/dev/null diff --no-index /dev/null " + h.work + "/secret.txt",
		"cat " + quoted + "/key", "tar cf - " + h.dir + " | tr -d '\\0'", "dd if=" + h.work + "/secret.txt",
		"echo x >written; echo x >attachments/written; echo x >" + h.work + "/written",
		"(sleep 0.1; cat " + h.work + "/secret.txt) & wait", "timeout 1 head -c 200 /dev/fd/3 </dev/null",
	}
	if python := "/usr/bin/python3"; exists(python) {
		attempts = append(attempts,
			python+` -c 'import socket;s=socket.socket(socket.AF_UNIX);s.connect("`+room.Dir+`/s");print("connect"+"ed")'`,
			python+` -c 'import socket;s=socket.create_connection(("127.0.0.1",`+strings.TrimSuffix(h.model.URL()[strings.LastIndex(h.model.URL(), ":")+1:], "/v1")+`));print("connect"+"ed")'`)
	}
	canaries := []string{workCanary, homeCanary, otherCanary, denyCanary, envCanary, "owners-word", "connected"}

	for _, tier := range []task.Tier{task.Team, task.Guest, task.Ambient} {
		t.Run(string(tier), func(t *testing.T) {
			reply := c.threadStart(child.GuestStart(tier, room.Dir, c.mcpServers(room.Dir)))
			if err := child.CheckGuest(reply, room.Dir); err != nil {
				t.Fatal(err)
			}
			if err := child.CheckOwner(reply); err == nil {
				t.Error("a guest's thread passes as an owner's")
			}
			found := 0
			for _, attempt := range attempts {
				got := c.turn(reply.Thread.ID, "[[sh "+attempt+"]]")
				if !strings.Contains(got, "exited with code") && !strings.Contains(got, "Process running") {
					t.Errorf("%s: did not run: %q", attempt, got)
				}
				for _, canary := range canaries {
					// The command itself may be echoed by a shell's error.
					if strings.Contains(strings.ReplaceAll(got, attempt, ""), canary) {
						found++
						t.Errorf("%s found %s:\n%s", attempt, canary, got)
					}
				}
			}
			if got := c.turn(reply.Thread.ID, "[[sh cat attachments/attachment-1.txt]]"); !strings.Contains(got, roomText) {
				t.Errorf("the guest cannot read its room: %q", got)
			}
			got := c.turn(reply.Thread.ID, "[[sh cat "+quoted+"/f.txt]]")
			if want := tier == task.Team; strings.Contains(got, readableText) != want {
				t.Errorf("tier path readable: %t, want %t: %q", !want, want, got)
			}
			if got := c.turn(reply.Thread.ID, "[[view "+h.work+"/secret.txt]] [[patch *** Begin Patch\n*** Add File: added.txt\n+x\n*** End Patch]]"); strings.Contains(got, workCanary) {
				t.Errorf("view_image: %q", got)
			}
			for _, path := range []string{room.Dir + "/written", room.Dir + "/added.txt", room.Dir + "/attachments/written", h.work + "/written"} {
				if exists(path) {
					t.Errorf("the guest wrote %s", path)
				}
			}
		})
	}

	// The same attempts on plain read-only find most of it: the suite can fail.
	plain := c.threadStart(rpc.ThreadStartParams{Cwd: room.Dir, ApprovalPolicy: "never", Sandbox: "read-only", Ephemeral: true})
	all := ""
	for _, attempt := range attempts {
		all += strings.ReplaceAll(c.turn(plain.Thread.ID, "[[sh "+attempt+"]]"), attempt, "")
	}
	for _, canary := range []string{workCanary, homeCanary, otherCanary, denyCanary} {
		if !strings.Contains(all, canary) {
			t.Errorf("plain read-only does not find %s either: the attempts prove nothing", canary)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// hostile is a user's own configuration that would reach a guest in every way
// found. MARK stands for a directory of the user's.
const hostile = `notify = ["/bin/sh", "-c", "echo notified >MARK/notified"]
developer_instructions = "hostile-developer"
instructions = "hostile-instructions"
model_instructions_file = "MARK/instructions.md"
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

func TestCodex_Probe(t *testing.T) {
	h := newHouse(t, "", func(h *house) {
		mustWrite(t, h.dir+"/readable/f", "x")
		h.opts.Read = map[task.Tier][]string{task.Team: {h.dir + "/readable"}}
	})
	child := h.policy().NewChild()
	c := h.start(child)
	if why := child.Refusal(); why != reason.GuestsUnconfined {
		t.Errorf("before the probe: %q", why)
	}
	if err := child.Probe(context.Background(), c.exec); err != nil {
		t.Fatal(err)
	}
	if why := child.Refusal(); why != "" {
		t.Errorf("after the probe: %q", why)
	}
	for _, dir := range []string{h.work, h.work + "/results", h.home.Dir, sandbox.RoomsDir(h.state)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "canary") || strings.HasPrefix(e.Name(), "probe-") {
				t.Errorf("left behind: %s", e.Name())
			}
		}
	}
	// Another generation's ids are unknown to this child: it cannot hold, and
	// a verdict of before does not stand.
	other := h.policy().NewChild()
	if err := other.Probe(context.Background(), c.exec); err == nil || other.Refusal() == "" {
		t.Errorf("a probe with profiles that the child does not have holds: %v", err)
	}
	broken := func(context.Context, rpc.CommandExecParams) (rpc.CommandExecReply, error) {
		return rpc.CommandExecReply{}, errors.New("requires experimentalApi capability")
	}
	if err := child.Probe(context.Background(), broken); err == nil || child.Refusal() != reason.GuestsUnconfined {
		t.Errorf("a probe that cannot run holds: %v, %q", err, child.Refusal())
	}
	// The fallback gives the same verdict without the experimental API.
	if err := child.Probe(context.Background(), child.SandboxExec(h.environ(child))); err != nil {
		t.Errorf("codex sandbox: %v", err)
	}
}

func TestCodex_ProbeFindsAnOpenProfile(t *testing.T) {
	h := newHouse(t, "", nil)
	child := h.policy().NewChild()
	// What a fixed id would be to a user's own table: the same profile, opened.
	var more []string
	for _, arg := range child.Args() {
		if key, _, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(key, "permissions.guest_") {
			more = append(more, "-c", key+`={filesystem={":root"="read"},network={enabled=false}}`)
		}
	}
	c := h.start(child, more...)
	err := child.Probe(context.Background(), c.exec)
	var unproven *sandbox.Unproven
	if !errors.As(err, &unproven) || !strings.Contains(err.Error(), "a guest reads") {
		t.Errorf("probe of an open profile: %v", err)
	}
	if child.Refusal() != reason.GuestsUnconfined {
		t.Errorf("refusal: %q", child.Refusal())
	}
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
