package stubserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// realCodex is a conversation with the real app-server, its model being scripted
// by the same words.
func realCodex(t *testing.T) *codex {
	t.Helper()
	binary := os.Getenv("CODEX_BINARY")
	if binary == "" {
		t.Skip("CODEX_BINARY is not set: the stub was not compared with the real codex")
	}
	srv, err := model.New(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	mustWrite(t, filepath.Join(home, "config.toml"), srv.ConfigTOML())
	cmd := exec.Command(binary, append(baseArgs(), "-c", "thread_unload_delay_secs=1",
		"-c", "features.plugins=false", "-c", "features.apps=false", "-c", "features.shell_snapshot=false", "-c", "allow_login_shell=false")...)
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = theirs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	c := listen(t, home, in, ours)
	t.Cleanup(func() {
		_ = in.Close()
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		_ = ours.Close()
		_ = srv.Close()
	})
	return c
}

// story is one conversation, told to both: what was refused how, and the keys of
// all that was said.
type story struct {
	c       *codex
	refused []string
	keys    map[string]map[string]bool // method → paths of keys
	order   []string
}

func (s *story) try(name, method, params string) {
	l := s.c.call(method, params)
	text := "answered"
	if l.Error != nil {
		text = fmt.Sprint(l.Error.Code, " ", l.Error.Message)
		if i := strings.Index(text, ", expected one of `initialize`"); i >= 0 {
			text = text[:i]
		}
	}
	s.refused = append(s.refused, name+": "+text)
}

// hide makes the texts of two runs equal.
func (s *story) hide(names map[string]string) {
	for i, text := range s.refused {
		for id, name := range names {
			text = strings.ReplaceAll(text, id, name)
		}
		s.refused[i] = text
	}
}

func tell(c *codex) *story {
	s := &story{c: c, keys: map[string]map[string]bool{}}
	s.try("too early", "thread/start", `{}`)
	c.hello()
	s.try("twice", "initialize", `{"clientInfo":{"name":"t","version":"1"}}`)
	s.try("unknown", "no/such", `{}`)
	work := filepath.Join(c.home, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		c.t.Fatal(err)
	}
	id := c.thread(fmt.Sprintf(`{"cwd":%q,"approvalPolicy":"never","config":{"default_permissions":"owner_1"}}`, work))
	this := fmt.Sprintf(`{"threadId":%q}`, id)
	ephemeral := c.thread(fmt.Sprintf(`{"cwd":%q,"sandbox":"read-only","ephemeral":true}`, work))
	for name, of := range map[string]string{"zero turns": id, "ephemeral": ephemeral, "nobody": nobody, "malformed": "bogus", "short": "0199"} {
		for _, method := range []string{"thread/resume", "thread/read", "thread/turns/list"} {
			s.try(name+" "+method, method, fmt.Sprintf(`{"threadId":%q}`, of))
		}
		s.try(name+" with turns", "thread/read", fmt.Sprintf(`{"threadId":%q,"includeTurns":true}`, of))
	}
	for _, method := range []string{"thread/compact/start", "thread/backgroundTerminals/clean", "thread/unsubscribe"} {
		s.try("nobody "+method, method, fmt.Sprintf(`{"threadId":%q}`, nobody))
	}
	s.try("nobody's turn", "turn/start", turnParams(nobody, "", "x"))
	s.try("nobody's interrupt", "turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":"x"}`, nobody))
	s.try("no turn", "turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":"x"}`, id))
	s.try("no input", "turn/start", this)
	s.try("no turn id", "turn/interrupt", this)
	s.try("input of no kind", "turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"song"}]}`, id))
	s.try("too long", "turn/start", turnParams(id, "", strings.Repeat("x", 1<<20+1)))
	s.try("sandbox", "thread/start", `{"sandbox":"none"}`)
	s.try("approval", "thread/start", `{"approvalPolicy":"maybe"}`)
	s.try("profile", "thread/start", `{"config":{"default_permissions":"nope"}}`)
	s.try("exec profile", "command/exec", `{"command":["true"],"permissionProfile":"nope"}`)
	s.try("exec nothing", "command/exec", `{"command":[],"permissionProfile":":read-only"}`)

	from := len(c.seen)
	c.ended(c.startTask(id, "task-1/1", "[[commentary]] hello"))
	for _, l := range c.seen[from:] {
		name := l.Method
		if l.Method == "" {
			name = "reply"
		}
		if kind, ok := at(l.Params, "item", "type").(string); ok {
			name += " " + kind
		}
		ignored := strings.HasPrefix(name, "stub/") || strings.Contains(name, "Grease") || strings.HasPrefix(name, "thread/readState") ||
			strings.HasPrefix(name, "mcpServer/") || name == "item/agentMessage/delta" || name == "thread/goal/cleared" || name == "warning"
		if !ignored {
			s.order = append(s.order, name)
		}
	}
	turn := c.startTask(id, "task-2/1", "[[stall]]")
	c.await("the start", func(l line) bool { return l.Method == "turn/started" && at(l.Params, "turn", "id") == turn })
	s.try("other turn", "turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":"x"}`, id))
	s.try("interrupt", "turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
	c.ended(turn)
	s.try("after it", "turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
	s.try("cursor", "thread/turns/list", fmt.Sprintf(`{"threadId":%q,"cursor":"nonsense"}`, id))
	s.try("view", "thread/turns/list", fmt.Sprintf(`{"threadId":%q,"itemsView":"all"}`, id))
	s.try("turns", "thread/turns/list", fmt.Sprintf(`{"threadId":%q,"itemsView":"full"}`, id))
	s.try("read", "thread/read", this)
	s.try("resume", "thread/resume", this)
	for _, method := range []string{"account/read", "model/list", "thread/loaded/list"} {
		s.try(method, method, `{}`)
	}
	failed := c.startTask(id, "task-3/1", "[[usage-limit]]")
	status, _ := c.ended(failed)
	s.refused = append(s.refused, "limit: "+status)
	c.must("thread/compact/start", "%s", this)
	c.method("turn/completed")
	s.try("unsubscribe", "thread/unsubscribe", this)
	s.try("again", "thread/unsubscribe", this)
	c.await("the unloading", func(l line) bool { return l.Method == "thread/closed" && l.Params["threadId"] == id })
	s.try("unloaded", "turn/start", turnParams(id, "", "x"))
	s.hide(map[string]string{id: "THREAD", ephemeral: "EPHEMERAL", turn: "TURN"})

	for _, l := range c.seen {
		method, body := l.Method, any(l.Params)
		if l.Method == "" {
			m, _ := c.asked[string(l.ID)].(string)
			method, body = "reply to "+m, any(l.Result)
		}
		if kind, ok := at(l.Params, "item", "type").(string); ok {
			method += " " + kind
		}
		if s.keys[method] == nil {
			s.keys[method] = map[string]bool{}
		}
		collect(s.keys[method], "", body)
	}
	return s
}

// collect lists the paths of all keys in a value.
func collect(into map[string]bool, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			into[path+"."+k] = true
			collect(into, path+"."+k, x)
		}
	case []any:
		for _, x := range v {
			collect(into, path+"[]", x)
		}
	}
}

// apart says which keys need not be the same: what models there are, whether a
// thread was read, and windows of limits, which only a login has (those are held
// against the schema).
func apart(method, key string) bool {
	return method == "reply to model/list" || strings.HasPrefix(key, ".readState.") || strings.HasPrefix(key, ".rateLimits.primary.") ||
		strings.Contains(key, "stubGrease")
}

// The same conversation with the real one: the same refusals word for word, the
// same order of events and the same keys in all that is said.
func TestCodex_TellsTheSame(t *testing.T) {
	codex := tell(realCodex(t))
	stub := tell(talk(t, t.TempDir()))
	slices.Sort(codex.refused)
	slices.Sort(stub.refused)
	for i := range max(len(codex.refused), len(stub.refused)) {
		if a, b := codex.refused[i], stub.refused[i]; a != b {
			t.Errorf("codex: %s\nstub:  %s", a, b)
		}
	}
	want(t, "order", strings.Join(stub.order, "\n"), strings.Join(codex.order, "\n"))
	for method, keys := range stub.keys {
		if strings.HasPrefix(method, "stub/") || strings.Contains(method, "Grease") {
			continue
		}
		theirs := codex.keys[method]
		if theirs == nil {
			t.Errorf("codex does not say %s", method)
			continue
		}
		for key := range keys {
			if !theirs[key] && !apart(method, key) {
				t.Errorf("%s: codex does not send %s", method, key)
			}
		}
		for key := range theirs {
			if !keys[key] && !apart(method, key) {
				t.Errorf("%s: the stub leaves out %s", method, key)
			}
		}
	}
}
