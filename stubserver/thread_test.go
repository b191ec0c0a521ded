package stubserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServer_Threads(t *testing.T) {
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w","approvalPolicy":"never","config":{"default_permissions":"owner_1"}}`)
	this := fmt.Sprintf(`{"threadId":%q}`, id)
	c.refused("thread/resume", this, -32600, "no rollout found for thread id "+id)
	c.refused("thread/turns/list", this, -32600, "thread "+id+" is not materialized yet; thread/turns/list is unavailable before first user message")
	c.refused("thread/read", fmt.Sprintf(`{"threadId":%q,"includeTurns":true}`, id), -32601, "list_turns is not supported yet")
	c.refused("thread/start", `{"config":{"default_permissions":"unknown"}}`, -32600, "failed to load configuration: default_permissions refers to undefined profile `unknown`")
	c.refused("thread/start", `{"sandbox":"none"}`, -32600, "Invalid request: unknown variant `none`, expected one of `read-only`, `workspace-write`, `danger-full-access`")
	c.refused("thread/start", `{"approvalPolicy":"maybe"}`, -32600, "Invalid request: unknown variant `maybe`, expected one of `untrusted`, `on-request`, `granular`, `never`")
	other := fmt.Sprintf(`{"threadId":%q}`, nobody)
	for method, text := range map[string]string{
		"thread/resume": "no rollout found for thread id ", "thread/read": "thread not loaded: ",
		"thread/turns/list": "thread not loaded: ", "thread/compact/start": "thread not found: ",
	} {
		c.refused(method, other, -32600, text+nobody)
		c.refused(method, `{}`, -32600, "Invalid request: missing field `threadId`")
	}
	c.refused("turn/start", turnParams(nobody, "", "x"), -32600, "thread not found: "+nobody)
	c.refused("thread/resume", `{"threadId":"bogus"}`, -32600, "invalid session id: invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `o` at 2")
	c.refused("thread/read", `{"threadId":"0199"}`, -32600, "invalid thread id: invalid length: expected length 32 for simple format, found 4")
	if found, _ := filepath.Glob(filepath.Join(home, "sessions/*/*/*/*")); len(found) != 0 {
		t.Errorf("a thread without a turn left %v", found)
	}
	want(t, "loaded", c.must("thread/loaded/list", `{}`)["data"], []any{id})

	status, answer := c.turn(id, "[[remember ferns]]")
	want(t, "first turn", status+" "+answer, "completed I will remember: ferns.")
	_, answer = c.turn(id, "[[recall]]")
	want(t, "second turn", answer, "I remember: ferns.")

	// Another process may look, and may write once the first has let go.
	second := talk(t, home).hello()
	second.refused("thread/resume", this, -32600, "thread "+id+" already has an active writer")
	read := second.must("thread/read", "%s", this)
	want(t, "seen from outside", at(read, "thread", "status", "type"), "notLoaded")
	want(t, "preview", at(read, "thread", "preview"), "[[remember ferns]]")

	want(t, "unsubscribed", c.must("thread/unsubscribe", "%s", this)["status"], "unsubscribed")
	c.await("thread/closed", func(l line) bool { return l.Method == "thread/closed" && l.Params["threadId"] == id })
	want(t, "unsubscribed again", c.must("thread/unsubscribe", "%s", this)["status"], "notLoaded")
	c.refused("turn/start", turnParams(id, "", "x"), -32600, "thread not found: "+id)

	resumed := second.must("thread/resume", `{"threadId":%q,"excludeTurns":true}`, id)
	want(t, "stored policy", at(resumed, "activePermissionProfile", "id"), "owner_1")
	want(t, "stored approvals", resumed["approvalPolicy"], "never")
	want(t, "turns left out", len(at(resumed, "thread", "turns").([]any)), 0)
	ignored := second.must("thread/resume", `{"threadId":%q,"sandbox":"danger-full-access"}`, id)
	want(t, "override on a loaded thread", at(ignored, "sandbox", "type"), "workspaceWrite")
	want(t, "turns put in", len(at(ignored, "thread", "turns").([]any)), 2)
	_, answer = second.turn(id, "[[recall]]")
	want(t, "in the other process", answer, "I remember: ferns.")
}

func TestServer_ResumeOverrides(t *testing.T) {
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w","sandbox":"danger-full-access"}`)
	c.turn(id, "hello")
	want(t, "end", c.end(), nil)
	for params, profile := range map[string]string{
		`"config":{"default_permissions":"guest_1"},"cwd":"/other","approvalPolicy":"untrusted"`: "guest_1 readOnly /other untrusted",
		`"sandbox":"workspace-write"`: "<nil> workspaceWrite /w on-request",
		`"excludeTurns":true`:         "<nil> dangerFullAccess /w on-request",
	} {
		c := talk(t, home).hello()
		r := c.must("thread/resume", `{"threadId":%q,%s}`, id, params)
		want(t, params, fmt.Sprint(at(r, "activePermissionProfile", "id"), " ", at(r, "sandbox", "type"), " ", r["cwd"], " ", r["approvalPolicy"]), profile)
		c.end()
	}
	c = talk(t, home).hello()
	c.refused("thread/resume", fmt.Sprintf(`{"threadId":%q,"config":{"default_permissions":"none"}}`, id), -32600, "failed to load configuration: default_permissions refers to undefined profile `none`")
}

func TestServer_Unsubscribe(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	turn := c.running(id, "[[stall]]")
	c.must("thread/unsubscribe", `{"threadId":%q}`, id)
	want(t, "twice", c.must("thread/unsubscribe", `{"threadId":%q}`, id)["status"], "notSubscribed")
	// Its turn runs on, unseen but for the thread's status.
	c.must("turn/interrupt", `{"threadId":%q,"turnId":%q}`, id, turn)
	c.method("thread/closed")
	want(t, "completions told", c.count("turn/completed"), 0)

	id = c.thread(`{"cwd":"/w"}`)
	c.turn(id, "hello")
	turn = c.running(id, "[[stall]]")
	c.must("thread/unsubscribe", `{"threadId":%q}`, id)
	r := c.must("thread/resume", `{"threadId":%q}`, id) // joins the running turn
	want(t, "joined", at(r, "thread", "status", "type"), "active")
	want(t, "running turn", at(r, "thread", "turns", 1, "status"), "inProgress")
	c.must("turn/interrupt", `{"threadId":%q,"turnId":%q}`, id, turn)
	status, _ := c.ended(turn)
	want(t, "seen again", status, "interrupted")
}

func TestServer_Ephemeral(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w","ephemeral":true}`)
	_, answer := c.turn(id, "[[reply hi]]")
	want(t, "answer", answer, "hi")
	_, answer = c.turn(id, "[[recall]]")
	want(t, "memory", answer, "I remember nothing.")
	this := fmt.Sprintf(`{"threadId":%q}`, id)
	c.refused("thread/turns/list", this, -32600, "ephemeral threads do not support thread/turns/list")
	c.refused("thread/read", fmt.Sprintf(`{"threadId":%q,"includeTurns":true}`, id), -32600, "ephemeral threads do not support includeTurns")
	r := c.must("thread/read", "%s", this)
	want(t, "status", at(r, "thread", "status", "type"), "idle")
	want(t, "path", at(r, "thread", "path"), nil)
	want(t, "read state", c.count("thread/readState/changed"), 0)
	for _, dir := range []string{"sessions", "thread-writer-locks"} {
		if _, err := os.Stat(filepath.Join(c.home, dir)); err == nil {
			t.Errorf("an ephemeral thread left %s", dir)
		}
	}
}

func TestServer_Locked(t *testing.T) {
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w"}`)
	c.turn(id, "hello")
	c.end()
	this := fmt.Sprintf(`{"threadId":%q}`, id)
	c = talk(t, home, "STUB_LOCKED=2").hello()
	for range 2 {
		c.refused("thread/resume", this, -32600, "thread "+id+" already has an active writer")
	}
	mustWrite(t, filepath.Join(home, "stub-locked"), "")
	c.refused("thread/resume", this, -32600, "thread "+id+" already has an active writer")
	if err := os.Remove(filepath.Join(home, "stub-locked")); err != nil {
		t.Fatal(err)
	}
	c.must("thread/resume", "%s", this)
}

func TestServer_DamagedRollout(t *testing.T) {
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w"}`)
	c.turn(id, "hello")
	c.end()
	found, err := filepath.Glob(filepath.Join(home, "sessions/*/*/*/rollout-*-"+id+".jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("rollouts %v, %v", found, err)
	}
	whole, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	this := fmt.Sprintf(`{"threadId":%q}`, id)
	lines := strings.SplitAfter(string(whole), "\n")
	for name, text := range map[string]string{
		"HalfALastLine": string(whole) + `{"type":"turn_star`,
		"Garbage":       lines[0] + "\x00\x00garbage\n" + strings.Join(lines[1:], ""),
	} {
		mustWrite(t, found[0], text)
		c = talk(t, home).hello()
		want(t, name, at(c.must("thread/turns/list", "%s", this), "data", 0, "status"), "completed")
		c.end()
	}
	for _, text := range []string{"", strings.Join(lines[1:], "")} {
		mustWrite(t, found[0], text)
		c = talk(t, home).hello()
		for _, method := range []string{"thread/read", "thread/turns/list", "thread/resume"} {
			if l := c.call(method, this); l.Error == nil || l.Error.Code != -32603 || !strings.Contains(l.Error.Message, "failed to read session metadata") {
				t.Errorf("%s of an empty rollout: %s", method, l.raw)
			}
		}
		c.end()
	}
	archived := filepath.Join(home, "archived_sessions")
	if err := os.MkdirAll(archived, 0o755); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, found[0], string(whole))
	if err := os.Rename(found[0], filepath.Join(archived, filepath.Base(found[0]))); err != nil {
		t.Fatal(err)
	}
	c = talk(t, home).hello()
	c.refused("thread/resume", this, -32600, "session "+id+" is archived. Run `codex unarchive "+id+"` to unarchive it first.")
	want(t, "archived history", at(c.must("thread/turns/list", "%s", this), "data", 0, "status"), "completed")
}

func TestServer_Policy(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	for _, tc := range []struct{ params, want string }{
		{`{"cwd":"/w"}`, ":read-only <nil> readOnly false on-request"},
		{`{"cwd":"/w","sandbox":"workspace-write","config":{"default_permissions":"guest_1"}}`, "<nil> <nil> workspaceWrite false on-request"},
		{`{"cwd":"/w","sandbox":"danger-full-access","approvalPolicy":"never"}`, "<nil> <nil> dangerFullAccess <nil> never"},
		{`{"cwd":"/w","config":{"default_permissions":"guest_1"},"ephemeral":true}`, "guest_1 <nil> readOnly false on-request"},
		{`{"cwd":"/w","config":{"default_permissions":"owner_1"}}`, "owner_1 :workspace workspaceWrite false on-request"},
		{`{"cwd":"/w","config":{"default_permissions":":danger-full-access"}}`, ":danger-full-access <nil> dangerFullAccess <nil> on-request"},
		{`{"cwd":"/w","config":{"default_permissions":"own","permissions":{"own":{"extends":":read-only","network":{"enabled":true}}}}}`, "own :read-only readOnly true on-request"},
	} {
		r := c.must("thread/start", "%s", tc.params)
		want(t, tc.params, fmt.Sprint(at(r, "activePermissionProfile", "id"), " ", at(r, "activePermissionProfile", "extends"), " ",
			at(r, "sandbox", "type"), " ", at(r, "sandbox", "networkAccess"), " ", r["approvalPolicy"]), tc.want)
		want(t, "instructions", len(r["instructionSources"].([]any)), 0)
		want(t, "cwd", r["cwd"], "/w")
	}
	guest := `{"cwd":"/w","config":{"default_permissions":"guest_1"},"ephemeral":true}`
	for word, bent := range map[string]string{
		"profile": "<nil> readOnly false true 0", "network": "guest_1 readOnly true true 0", "write": "guest_1 workspaceWrite false true 0",
		"durable": "guest_1 readOnly false false 0", "instructions": "guest_1 readOnly false true 1",
	} {
		r := talk(t, t.TempDir(), "STUB_POLICY="+word).hello().must("thread/start", "%s", guest)
		want(t, word, fmt.Sprint(at(r, "activePermissionProfile", "id"), " ", at(r, "sandbox", "type"), " ", at(r, "sandbox", "networkAccess"), " ",
			at(r, "thread", "ephemeral"), " ", len(r["instructionSources"].([]any))), bent)
	}
	home := t.TempDir()
	mustWrite(t, filepath.Join(home, "AGENTS.md"), "be kind")
	r := talk(t, home).hello().must("thread/start", "%s", guest)
	want(t, "instructions of the home", r["instructionSources"], []any{filepath.Join(home, "AGENTS.md")})
}
