package stubserver_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

func TestServer_Handshake(t *testing.T) {
	c := talk(t, t.TempDir())
	c.refused("thread/start", `{}`, -32600, "Not initialized")
	c.send(`not json`)
	c.send(`{"id":null,"method":"x","params":{}}`)
	c.hello()
	c.refused("initialize", `{}`, -32600, "Already initialized")
	c.refused("no/such", `{}`, -32600, "unknown variant `no/such`")
	c.next++
	c.send(fmt.Sprintf(`{"id":%d,"method":"account/read"}`, c.next))
	l := c.await("an answer", func(l line) bool { return string(l.ID) == fmt.Sprint(c.next) })
	if l.Error == nil || !strings.Contains(l.Error.Message, "missing field `params`") {
		t.Errorf("no params: %s", l.raw)
	}
	want(t, "login needed", c.must("account/read", `{}`)["requiresOpenaiAuth"], false)
	if !strings.HasPrefix(strings.TrimSpace(l.raw), `{"error":`) {
		t.Errorf("an error's keys come in Codex's order: %s", l.raw)
	}
}

func TestServer_Threads(t *testing.T) {
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w","config":{"default_permissions":"owner_1"}}`)
	c.refused("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "no rollout found for thread id "+id)
	c.refused("thread/turns/list", fmt.Sprintf(`{"threadId":%q}`, id), -32601, "list_turns is not supported yet")
	c.refused("thread/turns/list", `{"threadId":"nope"}`, -32600, "thread not loaded: nope")
	c.refused("turn/start", `{"threadId":"nope","input":[]}`, -32600, "thread not found: nope")
	c.refused("thread/start", `{"config":{"default_permissions":"unknown"}}`, -32600, "undefined profile")
	status, answer := c.turn(id, "[[remember ferns]]")
	want(t, "first turn", status+" "+answer, "completed I will remember: ferns.")
	_, answer = c.turn(id, "[[recall]]")
	want(t, "second turn", answer, "I remember: ferns.")

	other := talk(t, home).hello()
	other.refused("thread/resume", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "already has an active writer")
	list := other.must("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"limit":1}`, id))
	want(t, "page", len(list["data"].([]any)), 1)
	if list["nextCursor"] == nil {
		t.Error("no cursor to the older turn")
	}
	rest := other.must("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"limit":5,"cursor":%q}`, id, list["nextCursor"]))
	first := rest["data"].([]any)[0].(map[string]any)["items"].([]any)[0].(map[string]any)
	want(t, "client id in history", first["clientId"], "task-1/1")

	want(t, "unsubscribed", c.must("thread/unsubscribe", fmt.Sprintf(`{"threadId":%q}`, id))["status"], "unsubscribed")
	c.await("thread/closed", func(l line) bool { return l.Method == "thread/closed" && l.Params["threadId"] == id })
	want(t, "unsubscribed twice", c.must("thread/unsubscribe", fmt.Sprintf(`{"threadId":%q}`, id))["status"], "notLoaded")
	other.must("thread/resume", fmt.Sprintf(`{"threadId":%q,"config":{"default_permissions":":read-only"}}`, id))
	_, answer = other.turn(id, "[[recall]]")
	want(t, "in the other process", answer, "I remember: ferns.")
}

func TestServer_Policy(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	for _, tc := range []struct{ params, profile, sandbox string }{
		{`{"cwd":"/w"}`, ":read-only", "readOnly"},
		{`{"cwd":"/w","sandbox":"workspace-write"}`, "", "workspaceWrite"},
		{`{"cwd":"/w","config":{"default_permissions":"guest_1"},"ephemeral":true}`, "guest_1", "readOnly"},
		{`{"cwd":"/w","config":{"default_permissions":"owner_1"}}`, "owner_1", "workspaceWrite"},
		{`{"cwd":"/w","config":{"default_permissions":":danger-full-access"}}`, ":danger-full-access", "dangerFullAccess"},
	} {
		r := c.must("thread/start", tc.params)
		profile := ""
		if p, ok := r["activePermissionProfile"].(map[string]any); ok {
			profile = p["id"].(string)
		}
		want(t, tc.params, profile+" "+r["sandbox"].(map[string]any)["type"].(string), tc.profile+" "+tc.sandbox)
	}
}

func TestServer_Ephemeral(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w","ephemeral":true}`)
	_, answer := c.turn(id, "[[reply hi]]")
	want(t, "answer", answer, "hi")
	c.refused("thread/turns/list", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "ephemeral")
	r := c.must("thread/read", fmt.Sprintf(`{"threadId":%q}`, id))
	want(t, "status", r["thread"].(map[string]any)["status"].(map[string]any)["type"], "idle")
	if found, _ := filepath.Glob(filepath.Join(c.home, "sessions/*/*/*/*")); len(found) != 0 {
		t.Errorf("an ephemeral thread left %v", found)
	}
}

func TestServer_Interrupt(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	stop := func(turn string) line {
		return c.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
	}
	early := c.startTurn(id, "[[stall]]")
	if l := stop(early); l.Error == nil || !strings.Contains(l.Error.Message, "no active turn to interrupt") {
		t.Errorf("before turn/started: %s", l.raw)
	}
	c.await("turn/started", func(l line) bool { return l.Method == "turn/started" })
	if l := stop("other"); l.Error == nil || !strings.Contains(l.Error.Message, "expected active turn id other but found "+early) {
		t.Errorf("wrong id: %s", l.raw)
	}
	if l := c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[]}`, id)); l.Result["turn"].(map[string]any)["id"] != early {
		t.Errorf("a second turn/start is merged: %s", l.raw)
	}
	stop(early)
	status, _ := c.ended(early)
	want(t, "stalled turn", status, "interrupted")

	late := c.startTurn(id, "[[late 20]]")
	c.await("turn/started", func(l line) bool { return l.Method == "turn/started" })
	stop(late)
	status, answer := c.ended(late)
	want(t, "late turn", status+" "+answer, "completed Late, but done.")

	slow := c.startTurn(id, "[[slow 1000]]")
	c.await("a delta", func(l line) bool { return l.Method == "item/agentMessage/delta" })
	stop(slow)
	status, _ = c.ended(slow)
	want(t, "slow turn", status, "interrupted")

	refuse := c.startTurn(id, "[[stall-refuse]]")
	c.await("turn/started", func(l line) bool { return l.Method == "turn/started" })
	if l := stop(refuse); l.Error == nil {
		t.Errorf("not refused: %s", l.raw)
	}
	hard := talk(t, t.TempDir()).hello()
	id = hard.thread(`{"cwd":"/w"}`)
	turn := hard.startTurn(id, "[[stall-hard]]")
	hard.await("turn/started", func(l line) bool { return l.Method == "turn/started" })
	for range 2 {
		if l := hard.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn)); l.Error != nil {
			t.Errorf("not acknowledged: %s", l.raw)
		}
	}
	r := hard.must("thread/read", fmt.Sprintf(`{"threadId":%q}`, id))
	want(t, "deaf thread", r["thread"].(map[string]any)["status"].(map[string]any)["type"], "active")
}
