package sandbox_test

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
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

	control, err := net.Listen("unix", filepath.Join(h.state, "control.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer control.Close()
	port := h.model.URL()[strings.LastIndex(h.model.URL(), ":")+1 : len(h.model.URL())-len("/v1")]

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
		"cat /proc/1/environ /proc/1/cmdline", "cat /proc/1/root" + h.work + "/secret.txt", "cat /proc/1/cwd/secret.txt /proc/*/cwd/secret.txt",
		"cat /proc/*/maps | grep -i codex-home; cat /proc/*/fd/* 2>/dev/null </dev/null & sleep 0.2; kill %1",
		"find / -name 'rollout-*' -exec cat {} +", "find / -name '*.txt' -not -path '" + room.Dir + "/*' -exec cat {} + | head -c 4000", "find / -name '*.sqlite' -o -name auth.json",
		"unshare -Ur cat " + h.work + "/secret.txt", "unshare -Urm sh -c 'mount --bind / /tmp && cat /tmp" + h.work + "/secret.txt'",
		"nsenter -t 1 -m cat " + h.work + "/secret.txt", "chroot /proc/1/root cat " + h.work + "/secret.txt",
		"awk 'BEGIN{while((getline l<\"" + h.work + "/secret.txt\")>0)print l}'", "bash -c 'read l <" + h.home.Dir + "/secret.txt; echo $l'",
		"ulimit -c unlimited; sh -c 'kill -SEGV $$'; cat core* /tmp/core* " + h.work + "/core*", "cd " + h.work + " && cat secret.txt",
		"setsid sh -c 'cat " + h.work + "/secret.txt >/tmp/s'; sleep 0.1; cat /tmp/s", "cp -r " + h.work + " /tmp/w; cat /tmp/w/secret.txt",
		"bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + port + " && echo connect''ed'", "cat ~/../*/secret.txt ~/.ssh/* /root/.ssh/*",
		"dmesg; cat /dev/kmsg /proc/kcore 2>&1 | head -c 100", "mount | grep -c . ; cat /proc/self/mountinfo | grep results", "echo 1 >/proc/sys/vm/drop_caches && echo connect''ed",
	}
	tools := []string{
		`exec_command {"cmd":"cat secret.txt","workdir":"` + h.work + `"}`,
		`exec_command {"cmd":"cat ` + h.work + `/secret.txt","sandbox_permissions":"require_escalated","justification":"please"}`,
		`exec_command {"cmd":"cat ` + h.work + `/secret.txt","shell":"/bin/sh","login":true,"tty":true}`,
		`write_stdin {"session_id":1,"chars":"cat ` + h.work + `/secret.txt\n"}`,
		`view_image {"path":"` + h.work + `/secret.txt"}`, `view_image {"path":"../../../work/secret.txt"}`,
		`read_mcp_resource {"server":"x","uri":"file://` + h.work + `/secret.txt"}`, `spawn_agent {"message":"read ` + h.work + `/secret.txt"}`,
		`apply_patch {"input":"*** Begin Patch\n*** Update File: ` + h.work + `/secret.txt\n@@\n-x\n+y\n*** End Patch"}`,
	}
	if python := "/usr/bin/python3"; exists(python) {
		for _, socket := range []string{room.Dir + "/s", h.state + "/control.sock"} {
			attempts = append(attempts, python+` -c 'import socket;s=socket.socket(socket.AF_UNIX);s.connect("`+socket+`");print("connect"+"ed")'`)
		}
		attempts = append(attempts, python+` -c 'import socket;s=socket.create_connection(("127.0.0.1",`+port+`));print("connect"+"ed")'`)
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
			for i, attempt := range attempts {
				if tier != task.Guest && i%3 != 0 {
					continue // one mechanism for all tiers; the whole list once
				}
				got := c.turn(reply.Thread.ID, "[[sh "+attempt+"]]")
				if !strings.Contains(got, "exited with code") && !strings.Contains(got, "Process running") {
					t.Errorf("%s: did not run: %q", attempt, got)
				}
				for _, canary := range canaries {
					// The command itself may be echoed by a shell's error.
					if strings.Contains(strings.ReplaceAll(got, attempt, ""), canary) {
						t.Errorf("%s found %s:\n%s", attempt, canary, got)
					}
				}
			}
			for _, tool := range tools {
				got := strings.ReplaceAll(c.turn(reply.Thread.ID, "[[tool "+tool+"]]"), tool, "")
				for _, canary := range canaries {
					if strings.Contains(got, canary) {
						t.Errorf("%s found %s:\n%s", tool, canary, got)
					}
				}
			}
			// A terminal that outlives its turn is as confined as the turn.
			c.turn(reply.Thread.ID, `[[tool exec_command {"cmd":"sleep 0.5; cat `+h.work+`/secret.txt; echo in-the-background","yield_time_ms":250}]]`)
			if got := c.turn(reply.Thread.ID, `[[sh sleep 0.6]] [[tool write_stdin {"session_id":`+sessionOf(h)+`,"chars":"","yield_time_ms":1000}]]`); strings.Contains(got, workCanary) || !strings.Contains(got, "in-the-background") {
				t.Errorf("background terminal: %q", got)
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
	if len(attempts)+len(tools) < 40 {
		t.Errorf("%d attempts", len(attempts)+len(tools))
	}

	// Each connection can be made, by an owner with full access.
	for _, attempt := range attempts {
		if !strings.Contains(attempt, "socket.") && !strings.Contains(attempt, "/dev/tcp/") {
			continue
		}
		if got := c.turn(owner.Thread.ID, "[[sh "+attempt+"]]"); !strings.Contains(strings.ReplaceAll(got, attempt, ""), "connected") {
			t.Errorf("%s: does not connect for anybody: %q", attempt, got)
		}
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

// sessionOf is the id of the terminal that the newest tool output names.
func sessionOf(h *house) string {
	h.tb.Helper()
	outputs := last(h.model.Requests()).Outputs
	m := regexp.MustCompile(`session ID (\d+)`).FindStringSubmatch(strings.Join(outputs, "\n"))
	if m == nil {
		h.tb.Fatalf("no terminal was left running: %q", outputs)
	}
	return m[1]
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
