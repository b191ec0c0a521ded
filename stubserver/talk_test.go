package stubserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

const playCodex = "STUBSERVER_TEST_PLAYS_CODEX"

func TestMain(m *testing.M) {
	if os.Getenv(playCodex) != "" {
		os.Exit(stubserver.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

const patience = 10 * time.Second

// line is one message of the server.
type line struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params map[string]any  `json:"params"`
	Result map[string]any  `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
	raw string
}

// at follows keys and indices into a message's params or result.
func at(v any, path ...any) any {
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[k]
		case int:
			list, _ := v.([]any)
			if k >= len(list) {
				return nil
			}
			v = list[k]
		}
	}
	return v
}

// codex is a conversation with one server, in this process or in one of its own.
type codex struct {
	t      *testing.T
	home   string
	in     io.WriteCloser
	lines  chan line
	next   int
	seen   []line         // everything, in order
	asked  map[string]any // id of a call → its method
	served chan error
}

// baseArgs define profiles as the service's own command line does.
func baseArgs() []string {
	return []string{
		"app-server", "-c", "thread_unload_delay_secs=0.01", "-c", `default_permissions=":read-only"`,
		"-c", `permissions.guest_1={filesystem={":minimal"="read"},network={enabled=false}}`, "-c", `permissions.owner_1={extends=":workspace"}`,
	}
}

func talk(t *testing.T, home string, env ...string) *codex {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s, err := stubserver.New(stubserver.Options{Args: baseArgs(), Env: append([]string{"CODEX_HOME=" + home}, env...), In: inR, Out: outW})
	if err != nil {
		t.Fatal(err)
	}
	c := listen(t, home, inW, outR)
	go func() { c.served <- s.Serve(context.Background()) }() // waited for in end
	t.Cleanup(func() { c.end() })
	return c
}

// listen reads what a server says into the conversation.
func listen(t *testing.T, home string, in io.WriteCloser, out io.Reader) *codex {
	c := &codex{t: t, home: home, in: in, lines: make(chan line, 1<<16), asked: map[string]any{}, served: make(chan error, 1)}
	go func() { // ends with the server's output
		defer close(c.lines)
		for r := bufio.NewReader(out); ; {
			raw, err := r.ReadString('\n')
			if err != nil {
				return
			}
			var l line
			if json.Unmarshal([]byte(raw), &l) != nil {
				l = line{}
			}
			l.raw = raw
			c.lines <- l
		}
	}()
	return c
}

// end closes the server's input and returns what Serve returned.
func (c *codex) end() error {
	_ = c.in.Close()
	select {
	case err := <-c.served:
		c.served <- err
		return err
	case <-time.After(patience):
		c.t.Error("the server did not end with its input")
		return nil
	}
}

func (c *codex) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// await reads on until a message fits; all of them are kept.
func (c *codex) await(what string, fits func(line) bool) line {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-c.lines:
			if !ok {
				c.t.Fatalf("the server ended before %s", what)
			}
			c.seen = append(c.seen, l)
			if fits(l) {
				return l
			}
		case <-deadline:
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (c *codex) method(name string) line {
	c.t.Helper()
	return c.await(name, func(l line) bool { return l.Method == name })
}

// rest reads to the end of the server's output.
func (c *codex) rest() {
	c.t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case l, ok := <-c.lines:
			if !ok {
				return
			}
			c.seen = append(c.seen, l)
		case <-deadline:
			c.t.Fatal("the server goes on")
		}
	}
}

func (c *codex) ask(method, params string) (id string) {
	c.t.Helper()
	c.next++
	id = fmt.Sprint(c.next)
	c.asked[id] = method
	c.send(fmt.Sprintf(`{"id":%s,"method":%q,"params":%s}`, id, method, params))
	return id
}

func (c *codex) call(method, params string) line {
	c.t.Helper()
	id := c.ask(method, params)
	return c.await("the answer to "+method, func(l line) bool { return l.Method == "" && string(l.ID) == id })
}

func (c *codex) must(method, params string, args ...any) map[string]any {
	c.t.Helper()
	l := c.call(method, fmt.Sprintf(params, args...))
	if l.Error != nil {
		c.t.Fatalf("%s: %d %s", method, l.Error.Code, l.Error.Message)
	}
	return l.Result
}

func (c *codex) refused(method, params string, code int, text string) {
	c.t.Helper()
	l := c.call(method, params)
	if l.Error == nil || l.Error.Code != code || l.Error.Message != text {
		c.t.Errorf("%s %s: answered %s, want error %d %q", method, params, l.raw, code, text)
	}
}

func (c *codex) hello() *codex {
	c.t.Helper()
	c.must("initialize", `{"clientInfo":{"name":"test","version":"1"},"capabilities":{"experimentalApi":true}}`)
	c.send(`{"method":"initialized"}`)
	return c
}

func (c *codex) thread(params string) string {
	c.t.Helper()
	return at(c.must("thread/start", "%s", params), "thread", "id").(string)
}

func (c *codex) startTurn(thread, text string) string {
	c.t.Helper()
	return c.startTask(thread, "task-1/1", text)
}

func (c *codex) startTask(thread, clientID, text string) string {
	c.t.Helper()
	return at(c.must("turn/start", "%s", turnParams(thread, clientID, text)), "turn", "id").(string)
}

func turnParams(thread, clientID, text string) string {
	raw, _ := json.Marshal(text)
	return fmt.Sprintf(`{"threadId":%q,"clientUserMessageId":%q,"input":[{"type":"text","text":%s}]}`, thread, clientID, raw)
}

// running starts a turn that can be interrupted.
func (c *codex) running(thread, text string) string {
	c.t.Helper()
	id := c.startTurn(thread, text)
	c.await("turn/started", func(l line) bool { return l.Method == "turn/started" && at(l.Params, "turn", "id") == id })
	return id
}

// turn runs a turn to its end and returns it with its final text.
func (c *codex) turn(thread, text string) (status, answer string) {
	c.t.Helper()
	return c.ended(c.startTurn(thread, text))
}

// ended waits for the end of a turn; answer is the last text of its items.
func (c *codex) ended(id string) (status, answer string) {
	c.t.Helper()
	l := c.await("the end of the turn", func(l line) bool {
		if l.Method == "item/completed" && at(l.Params, "item", "type") == "agentMessage" && l.Params["turnId"] == id {
			answer, _ = at(l.Params, "item", "text").(string)
		}
		return l.Method == "turn/completed" && at(l.Params, "turn", "id") == id
	})
	return at(l.Params, "turn", "status").(string), answer
}

// count tells how many messages of a method were seen.
func (c *codex) count(method string) (n int) {
	for _, l := range c.seen {
		if l.Method == method {
			n++
		}
	}
	return n
}

func (c *codex) text() string {
	var b strings.Builder
	for _, l := range c.seen {
		b.WriteString(l.raw)
	}
	return b.String()
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
