package stubserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc/schematest"
)

// replies names the schema of each method's reply.
var replies = map[string]string{
	"initialize": "InitializeResponse", "account/read": "v2/GetAccountResponse", "model/list": "v2/ModelListResponse",
	"config/read": "v2/ConfigReadResponse", "thread/start": "v2/ThreadStartResponse", "thread/resume": "v2/ThreadResumeResponse",
	"thread/read": "v2/ThreadReadResponse", "thread/turns/list": "v2/ThreadTurnsListResponse", "thread/loaded/list": "v2/ThreadLoadedListResponse",
	"thread/unsubscribe": "v2/ThreadUnsubscribeResponse", "thread/compact/start": "v2/ThreadCompactStartResponse",
	"thread/backgroundTerminals/clean": "v2/ThreadBackgroundTerminalsCleanResponse", "turn/start": "v2/TurnStartResponse",
	"turn/interrupt": "v2/TurnInterruptResponse", "command/exec": "v2/CommandExecResponse",
}

// Everything that the stub ever says holds against the schema of the real one,
// but for what is meant not to.
func TestServer_Schema(t *testing.T) {
	schemas := schematest.Load(t)
	known := map[string]string{}
	for _, union := range []string{"ServerNotification", "ServerRequest"} {
		for _, m := range schemas.Methods(t, union) {
			known[m] = union
		}
	}
	var talks []*codex
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w","config":{"default_permissions":"owner_1"}}`)
	c.turn(id, "hello")
	c.turn(id, "[[model-error]]")
	for _, method := range []string{"account/read", "model/list", "config/read", "thread/loaded/list"} {
		c.must(method, `{}`)
	}
	for _, method := range []string{"thread/read", "thread/turns/list", "thread/backgroundTerminals/clean", "thread/unsubscribe"} {
		c.must(method, `{"threadId":%q}`, id)
	}
	c.method("thread/closed")
	c.must("thread/resume", `{"threadId":%q}`, id)
	c.must("thread/read", `{"threadId":%q,"includeTurns":true}`, id)
	c.must("thread/start", `{"sandbox":"danger-full-access","ephemeral":true}`)
	c.must("command/exec", `{"command":["true"],"permissionProfile":"guest_1"}`)
	talks = append(talks, c)
	for word, proof := range scenarios() {
		env := ""
		if word == "commentary" {
			env = "STUB_NO_LOGIN=1"
		}
		c := talk(t, t.TempDir(), env).hello()
		c.must("account/read", `{}`)
		proof(t, c, c.thread(`{"cwd":"/w"}`))
		talks = append(talks, c)
	}
	broken := t.TempDir()
	mustWrite(t, broken+"/config.toml", "model = broken")
	talks = append(talks, talk(t, broken).hello())

	checked := map[string]bool{}
	for _, c := range talks {
		for _, l := range c.seen {
			schema := known[l.Method]
			if l.Method == "" && l.Result != nil {
				method := c.asked[strings.Trim(string(l.ID), `"`)].(string)
				checked[method] = true
				schemas.Check(t, replies[method], json.RawMessage(result(t, l)))
				continue
			}
			if schema == "" || strings.Contains(l.raw, "stubGreaseItem") || len(l.raw) > 1<<16 {
				continue
			}
			checked[l.Method] = true
			schemas.Check(t, schema, json.RawMessage(l.raw))
		}
	}
	for method := range replies {
		if !checked[method] {
			t.Errorf("no reply to %s was held against the schema", method)
		}
	}
	for _, method := range append(schemas.Methods(t, "ServerRequest"),
		"turn/started", "turn/completed", "item/started", "item/completed", "item/agentMessage/delta", "error", "warning", "configWarning",
		"thread/started", "thread/status/changed", "thread/closed", "thread/tokenUsage/updated", "thread/readState/changed", "thread/goal/cleared",
		"account/rateLimits/updated", "serverRequest/resolved", "deprecationNotice", "remoteControl/status/changed") {
		if !checked[method] {
			t.Errorf("no %s was held against the schema", method)
		}
	}
}

// result cuts a reply's result out of its line.
func result(t *testing.T, l line) []byte {
	t.Helper()
	var m struct{ Result json.RawMessage }
	if err := json.Unmarshal([]byte(l.raw), &m); err != nil {
		t.Fatal(err)
	}
	return m.Result
}
