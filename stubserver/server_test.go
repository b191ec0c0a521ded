package stubserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

const nobody = "01990000-0000-7000-8000-000000000000"

func TestServer_Handshake(t *testing.T) {
	c := talk(t, t.TempDir())
	c.refused("thread/start", `{}`, -32600, "Not initialized")
	c.refused("initialize", `{}`, -32600, "Invalid request: missing field `clientInfo`")
	// What cannot be read is dropped without an answer.
	for _, dropped := range []string{
		`not json`, ``, `{"id":90,"method":"account/read","params":{}`, `{"id":null,"method":"account/read","params":{}}`,
		`{"id":1.5,"method":"account/read","params":{}}`, `[{"id":91,"method":"account/read","params":{}}]`, `{}`,
	} {
		c.send(dropped)
	}
	r := c.must("initialize", `{"clientInfo":{"name":"test","version":"1"},"capabilities":{"optOutNotificationMethods":["thread/started"]}}`)
	want(t, "answers so far", len(c.seen), 3)
	want(t, "user agent", strings.HasPrefix(r["userAgent"].(string), "test/0.171.0 ("), true)
	want(t, "home", r["codexHome"], c.home)
	c.method("remoteControl/status/changed")
	c.refused("initialize", `{}`, -32600, "Already initialized")
	if l := c.call("no/such", `{}`); l.Error == nil || !strings.HasPrefix(l.Error.Message, "Invalid request: unknown variant `no/such`, expected one of `initialize`, ") {
		t.Errorf("unknown method: %s", l.raw)
	}
	c.send(`{"id":"text id","method":"account/read"}`)
	l := c.await("an answer", func(l line) bool { return string(l.ID) == `"text id"` })
	if l.raw != `{"error":{"code":-32600,"message":"Invalid request: missing field `+"`params`"+`"},"id":"text id"}`+"\n" {
		t.Errorf("an error comes with Codex's keys in Codex's order: %s", l.raw)
	}
	want(t, "login needed", c.must("account/read", `{}`)["requiresOpenaiAuth"], false)
	want(t, "model", at(c.must("model/list", `{"limit":1}`), "data", 0, "id"), "stub-model")
	c.thread(`{"cwd":"/w"}`)
	c.must("account/read", `{}`)
	want(t, "notifications that were opted out of", c.count("thread/started"), 0)
	c.refused("thread/fork", `{}`, -32603, "thread/fork is not played by the stub")
}

func TestServer_Experimental(t *testing.T) {
	for name, tc := range map[string]struct{ env, capabilities string }{
		"NotDeclared": {"", `{}`},
		"Refused":     {"STUB_NO_EXPERIMENTAL=1", `{"experimentalApi":true}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := talk(t, t.TempDir(), tc.env)
			c.must("initialize", `{"clientInfo":{"name":"test","version":"1"},"capabilities":%s}`, tc.capabilities)
			id := c.thread(`{"cwd":"/w"}`)
			c.refused("thread/start", `{"permissions":"x"}`, -32600, "thread/start.permissions requires experimentalApi capability")
			c.refused("command/exec", `{"command":["true"],"permissionProfile":"x"}`, -32600, "command/exec.permissionProfile requires experimentalApi capability")
			c.refused("thread/backgroundTerminals/clean", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "thread/backgroundTerminals/clean requires experimentalApi capability")
		})
	}
	c := talk(t, t.TempDir()).hello()
	c.must("thread/backgroundTerminals/clean", `{"threadId":%q}`, c.thread(`{"cwd":"/w"}`))
	c.refused("thread/backgroundTerminals/clean", fmt.Sprintf(`{"threadId":%q}`, nobody), -32600, "thread not found: "+nobody)
}

func TestServer_Environment(t *testing.T) {
	home := t.TempDir()
	mustWrite(t, filepath.Join(home, "config.toml"), "x = 1\nmodel = broken\n")
	c := talk(t, home, "STUB_NO_LOGIN=1", "STUB_OVERLOAD=2", "STUB_VERSION=9.9.9", "STUB_INIT_MS=1").hello()
	for range 2 {
		c.refused("account/read", `{}`, -32001, "Server overloaded; retry later.")
	}
	account := c.must("account/read", `{}`)
	want(t, "account", fmt.Sprint(account["account"], account["requiresOpenaiAuth"]), "<nil> true")
	want(t, "version", strings.Contains(c.text(), `"test/9.9.9 (`), true)
	broken := false
	for _, l := range c.seen {
		broken = broken || l.Method == "configWarning" && l.Params["summary"] == "Invalid configuration; using defaults." &&
			l.Params["path"] == filepath.Join(home, "config.toml") && at(l.Params, "range", "start", "line") == 2.0
	}
	want(t, "warning", broken, true)
	for method, prefix := range map[string]string{"thread/start": "failed to load configuration: ", "config/read": "failed to read configuration layers: "} {
		if l := c.call(method, `{}`); l.Error == nil || !strings.HasPrefix(l.Error.Message, prefix+filepath.Join(home, "config.toml")+":2:") {
			t.Errorf("%s with a broken configuration: %s", method, l.raw)
		}
	}
	mustWrite(t, filepath.Join(home, "auth.json"), "{}")
	want(t, "account after the login", at(c.must("account/read", `{}`), "account", "type"), "apiKey")
	mustWrite(t, filepath.Join(home, "config.toml"), "[mcp_servers.files]\ncommand = \"true\"\n[mcp_servers.\"w eb\"]\nurl = \"x\"\n")
	c.thread(`{"cwd":"/w"}`) // heals without a restart
	config := c.must("config/read", `{"cwd":"/w"}`)
	want(t, "server", at(config, "config", "mcp_servers", "files", "command"), "true")
	want(t, "other server", at(config, "config", "mcp_servers", "w eb", "enabled"), true)
	want(t, "flag", at(config, "config", "default_permissions"), ":read-only")

	mute := talk(t, t.TempDir(), "STUB_MUTE=1")
	mute.send(`{"id":1,"method":"initialize","params":{"clientInfo":{"name":"t","version":"1"}}}`)
	want(t, "mute server", mute.end(), nil)
	mute.rest()
	want(t, "lines of a mute server", len(mute.seen), 0)
}

func TestNew_Refuses(t *testing.T) {
	home := t.TempDir()
	script := filepath.Join(home, "script")
	mustWrite(t, script, `{"do":"[[no-such-word]]"}`)
	for name, tc := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"NoHome":      {[]string{"HOME=/no/such"}, nil, `CODEX_HOME points to "/no/such/.codex", but that path does not exist`},
		"NoDefault":   {nil, []string{"-c", `permissions.x={extends=":read-only"}`}, "does not set `default_permissions`"},
		"Undefined":   {nil, []string{"-c", `default_permissions="y"`, "-c", `permissions.x={extends=":read-only"}`}, "undefined profile `y`"},
		"NoTable":     {nil, []string{"-c", `default_permissions=y`}, "requires a `[permissions]` table"},
		"FullAccess":  {nil, []string{"-c", `default_permissions="x"`, "-c", `permissions.x={extends=":danger-full-access"}`}, "cannot extend unsupported built-in profile"},
		"Itself":      {nil, []string{"-c", `default_permissions="x"`, "-c", `permissions.x={extends="x"}`}, "extends itself"},
		"NoScript":    {[]string{"STUB_SCRIPT=/no/such"}, nil, "read the script"},
		"UnknownWord": {[]string{"STUB_SCRIPT=" + script}, nil, "no such word: no-such-word"},
	} {
		t.Run(name, func(t *testing.T) {
			env := append([]string{"CODEX_HOME=" + home}, tc.env...)
			if name == "NoHome" {
				env = tc.env
			}
			_, err := stubserver.New(stubserver.Options{Args: append([]string{"app-server"}, tc.args...), Env: env, Out: io.Discard})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("started with %v, want %q", err, tc.want)
			}
		})
	}
}

// Ends in this process: by the context, by a client that is gone, by a failing input.
func TestServer_Ends(t *testing.T) {
	t.Run("Context", func(t *testing.T) {
		ours, theirs := net.Pipe()
		s, err := stubserver.New(stubserver.Options{Args: baseArgs(), Env: []string{"CODEX_HOME=" + t.TempDir()}, In: theirs, Out: theirs})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		want(t, "Serve", s.Serve(ctx), nil)
		if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the pipe is open: %v", err)
		}
	})
	t.Run("ClientThatDoesNotRead", func(t *testing.T) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		var errs lockedText
		s, err := stubserver.New(stubserver.Options{Args: baseArgs(), Env: []string{"CODEX_HOME=" + t.TempDir(), "STUB_STDERR=50"}, In: inR, Out: outW, Err: &errs})
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background()) }()
		_ = outR.Close()
		for range 100 { // it goes on taking requests
			_, _ = io.WriteString(inW, `{"id":1,"method":"account/read","params":{}}`+"\n")
		}
		_ = inW.CloseWithError(errors.New("torn"))
		if err := <-served; err == nil || err.Error() != "read input: torn" {
			t.Errorf("Serve: %v", err)
		}
		want(t, "complaints", strings.Count(errs.String(), "Failed to write to stdout"), 1)
		want(t, "noise", strings.Count(errs.String(), "noisy"), 3)
	})
}

type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
