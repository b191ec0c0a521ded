package stubserver_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc/schematest"
	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

func TestServer_Failures(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	fail := func(thread, text, kind string) {
		t.Helper()
		id := c.startTurn(thread, text)
		l := c.await("the end", func(l line) bool {
			return l.Method == "turn/completed" && l.Params["turn"].(map[string]any)["id"] == id
		})
		turn := l.Params["turn"].(map[string]any)
		want(t, text, fmt.Sprint(turn["status"], " ", turn["error"].(map[string]any)["codexErrorInfo"]), "failed "+kind)
	}
	id := c.thread(`{"cwd":"/w"}`)
	fail(id, "[[model-error]]", "internalServerError")
	fail(id, "[[unauthorized]]", "unauthorized")
	fail(id, "[[usage-limit 60]]", "usageLimitExceeded")
	var reset float64
	for _, l := range c.seen {
		if l.Method == "account/rateLimits/updated" {
			reset = l.Params["rateLimits"].(map[string]any)["primary"].(map[string]any)["resetsAt"].(float64)
		}
	}
	if left := reset - float64(time.Now().Unix()); left < 50 || left > 61 {
		t.Errorf("the limit resets in %v s, want 60", left)
	}
	fail(id, "[[usage-limit-once]]", "usageLimitExceeded")
	status, _ := c.turn(id, "[[usage-limit-once]]")
	want(t, "the second time", status, "completed")
	fail(id, "[[context-window]]", "contextWindowExceeded")
	c.must("thread/compact/start", fmt.Sprintf(`{"threadId":%q}`, id))
	c.await("the compaction", func(l line) bool { return l.Method == "turn/completed" })
	status, _ = c.turn(id, "[[context-window]]")
	want(t, "after the compaction", status, "completed")
	fail(id, "[[context-window-always]]", "contextWindowExceeded")
	fresh := c.thread(`{"cwd":"/w"}`)
	status, _ = c.turn(fresh, "[[context-window-always]]")
	want(t, "on a fresh thread", status, "completed")
	long, _ := json.Marshal(strings.Repeat("x", 1<<20+1))
	l := c.call("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"text","text":%s}]}`, id, long))
	if l.Error == nil || l.Error.Code != -32602 || l.Error.Data["input_error_code"] != "input_too_large" {
		t.Errorf("too long: %.200s", l.raw)
	}
}

func TestServer_Oddities(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	count := func(method string) (n int) {
		for _, l := range c.seen {
			if l.Method == method {
				n++
			}
		}
		return n
	}
	_, answer := c.turn(id, "[[commentary]] hello")
	want(t, "answer after commentary", answer, "You said: hello")
	want(t, "commentary first", strings.Contains(c.seenText(), `"phase":"commentary"`), true)
	_, answer = c.turn(id, "[[huge 70000]]")
	want(t, "huge", len(answer), 70000)
	c.turn(id, "[[junk]] hello")
	want(t, "junk", strings.Contains(c.seenText(), "\x1b[31mwarning:"), true)
	status, answer := c.turn(id, "[[empty-once]]")
	want(t, "empty once", status+" "+answer, "completed ")
	_, answer = c.turn(id, "[[empty-once]] again")
	want(t, "then not", answer, "You said: again")
	before := count("turn/completed")
	c.turn(id, "[[sub-agent]] hello")
	want(t, "completions with a sub-agent", count("turn/completed")-before, 3)
	before = count("turn/completed")
	c.turn(id, "[[twice]] hello")
	c.must("thread/loaded/list", `{}`)
	want(t, "completions", count("turn/completed")-before, 2)
	if count("stub/grease") < 5 {
		t.Errorf("grease %d times, want it all the time", count("stub/grease"))
	}
	turn := c.startTurn(id, "[[approve item/fileChange/requestApproval]]")
	ask := c.await("the request", func(l line) bool { return l.Method == "item/fileChange/requestApproval" })
	c.send(fmt.Sprintf(`{"id":%s,"result":{"decision":"decline"}}`, ask.ID))
	_, answer = c.ended(turn)
	want(t, "approval", answer, `It was answered: {"decision":"decline"}`)
	lost := c.startTurn(id, "[[lost]] hello")
	c.await("the answer", func(l line) bool {
		return l.Method == "item/completed" && l.Params["turnId"] == lost && strings.Contains(l.raw, "agentMessage")
	})
	status = ""
	for status != "completed" {
		list := c.must("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"limit":1}`, id))
		status = list["data"].([]any)[0].(map[string]any)["status"].(string)
	}
}

func (c *codex) seenText() string {
	var b strings.Builder
	for _, l := range c.seen {
		b.WriteString(l.raw)
	}
	return b.String()
}

func TestServer_Environment(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte("model = broken\n[mcp_servers.files]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(home, "log")
	c := talk(t, home, "STUB_NO_LOGIN=1", "STUB_OVERLOAD=1", "STUB_VERSION=9.9.9", "STUB_INIT_MS=1", "STUB_STDERR=100", "STUB_LOG="+log).hello()
	c.refused("account/read", `{}`, -32001, "Server overloaded")
	want(t, "account", c.must("account/read", `{}`)["account"], nil)
	want(t, "version", strings.Contains(c.seenText(), "test/9.9.9 ("), true)
	want(t, "warning", strings.Contains(c.seenText(), "Invalid configuration"), true)
	c.refused("thread/start", `{}`, -32600, "failed to load configuration")
	servers := c.must("config/read", `{"cwd":"/w"}`)["config"].(map[string]any)["mcp_servers"].(map[string]any)
	want(t, "servers", len(servers), 1)
	if err := os.WriteFile(filepath.Join(home, "auth.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.must("account/read", `{}`)["account"] == nil {
		t.Error("the login was not seen")
	}
	raw, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(raw), `"start":`) {
		t.Errorf("log %q, %v", raw, err)
	}
	mute := talk(t, t.TempDir(), "STUB_MUTE=1")
	mute.send(`{"id":1,"method":"initialize","params":{}}`)
	_ = mute.in.Close()
	if l, ok := <-mute.lines; ok {
		t.Errorf("a mute server said %s", l.raw)
	}
}

func TestServer_Schema(t *testing.T) {
	schemas := schematest.Load(t)
	known := map[string]bool{}
	for _, m := range schemas.Methods(t, "ServerNotification") {
		known[m] = true
	}
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w","config":{"default_permissions":"owner_1"}}`)
	c.turn(id, "[[commentary]] hello")
	c.turn(id, "[[usage-limit 5]]")
	c.must("thread/compact/start", fmt.Sprintf(`{"threadId":%q}`, id))
	c.await("the compaction", func(l line) bool { return l.Method == "turn/completed" })
	checked := 0
	for _, l := range c.seen {
		if !known[l.Method] {
			continue
		}
		checked++
		schemas.Check(t, "ServerNotification", json.RawMessage(l.raw))
	}
	if checked < 20 {
		t.Errorf("only %d notifications were held against the schema", checked)
	}
	for method, schema := range map[string]string{
		"thread/start": "v2/ThreadStartResponse", "thread/loaded/list": "v2/ThreadLoadedListResponse", "account/read": "v2/GetAccountResponse", "model/list": "v2/ModelListResponse",
	} {
		schemas.Check(t, schema, c.must(method, `{}`))
	}
	schemas.Check(t, "v2/ThreadTurnsListResponse", c.must("thread/turns/list", fmt.Sprintf(`{"threadId":%q}`, id)))
	schemas.Check(t, "v2/ThreadReadResponse", c.must("thread/read", fmt.Sprintf(`{"threadId":%q}`, id)))
}

// A real process that is killed in mid-turn leaves a history as Codex would.
func TestMain_Killed(t *testing.T) {
	home := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run := func(input string) (string, *os.ProcessState) {
		t.Helper()
		cmd := exec.Command(exe, "app-server")
		cmd.Env = append(os.Environ(), playCodex+"=1", "CODEX_HOME="+home)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, input); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(input, "[[die]]") {
			_ = in.Close()
		}
		_ = cmd.Wait()
		return out.String(), cmd.ProcessState
	}
	open := `{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}` + "\n"
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w"}`)
	c.turn(id, "hello")
	c.must("thread/unsubscribe", fmt.Sprintf(`{"threadId":%q}`, id))
	c.await("thread/closed", func(l line) bool { return l.Method == "thread/closed" })

	_, state := run(open + fmt.Sprintf(`{"id":2,"method":"thread/resume","params":{"threadId":%q}}`, id) + "\n" +
		fmt.Sprintf(`{"id":3,"method":"turn/start","params":{"threadId":%q,"clientUserMessageId":"task-9/1","input":[{"type":"text","text":"[[die]]"}]}}`, id) + "\n")
	if ws := state.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Errorf("ended as %v, want SIGKILL", state)
	}
	out, state := run(open + fmt.Sprintf(`{"id":2,"method":"thread/turns/list","params":{"threadId":%q,"limit":1}}`, id) + "\n")
	if !strings.Contains(out, `"status":"interrupted"`) || !strings.Contains(out, `"clientId":"task-9/1"`) {
		t.Errorf("history after the kill: %s", out)
	}
	if state.ExitCode() != 0 {
		t.Errorf("the end of stdin ends it with %d, want 0", state.ExitCode())
	}
}

func TestMain_Verbs(t *testing.T) {
	var out, errs strings.Builder
	if code := stubserver.Main([]string{"--version"}, nil, nil, &out, &errs); code != 0 || out.String() != "codex-cli 0.171.0\n" {
		t.Errorf("--version: %d %q", code, out.String())
	}
	out.Reset()
	if code := stubserver.Main([]string{"--scenarios"}, nil, nil, &out, &errs); code != 0 || !strings.Contains(out.String(), "stall-hard") || !strings.Contains(out.String(), "STUB_LOG") {
		t.Errorf("--scenarios: %d %q", code, out.String())
	}
	if code := stubserver.Main([]string{"exec"}, nil, nil, &out, &errs); code != 2 || errs.Len() == 0 {
		t.Errorf("exec: %d %q", code, errs.String())
	}
}
