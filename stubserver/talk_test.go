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

// codex is a conversation with one server in this process.
type codex struct {
	t     *testing.T
	home  string
	in    *io.PipeWriter
	lines chan line
	next  int
	seen  []line // everything, in order
	died  chan struct{}
}

func talk(t *testing.T, home string, env ...string) *codex {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	c := &codex{t: t, home: home, in: inW, lines: make(chan line, 4096), died: make(chan struct{})}
	s := stubserver.New(stubserver.Options{
		Args: []string{"app-server", "-c", `thread_unload_delay_secs=0.01`, "-c", `permissions.guest_1={filesystem={":minimal"="read"}}`, "-c", `permissions.owner_1={extends=":workspace"}`},
		Env:  append([]string{"CODEX_HOME=" + home}, env...), In: inR, Out: outW, Err: io.Discard,
		Kill: func() { close(c.died); select {} },
	})
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background()); _ = outW.Close() }()
	go func() {
		defer close(c.lines)
		for r := bufio.NewReader(outR); ; {
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
	t.Cleanup(func() {
		_ = inW.Close()
		select {
		case <-done:
		case <-c.died: // it plays dead and cannot be waited for
		case <-time.After(patience):
			t.Error("the server did not end with its input")
		}
	})
	return c
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
		case <-c.died:
			c.t.Fatalf("the server died before %s", what)
		case <-deadline:
			c.t.Fatalf("waited in vain for %s", what)
		}
	}
}

func (c *codex) call(method, params string) line {
	c.t.Helper()
	c.next++
	id := fmt.Sprint(c.next)
	c.send(fmt.Sprintf(`{"id":%s,"method":%q,"params":%s}`, id, method, params))
	return c.await("the answer to "+method, func(l line) bool { return l.Method == "" && string(l.ID) == id })
}

func (c *codex) must(method, params string) map[string]any {
	c.t.Helper()
	l := c.call(method, params)
	if l.Error != nil {
		c.t.Fatalf("%s: %d %s", method, l.Error.Code, l.Error.Message)
	}
	return l.Result
}

func (c *codex) refused(method, params string, code int, text string) {
	c.t.Helper()
	l := c.call(method, params)
	if l.Error == nil || l.Error.Code != code || !strings.Contains(l.Error.Message, text) {
		c.t.Errorf("%s: answered %s, want error %d %q", method, l.raw, code, text)
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
	return c.must("thread/start", params)["thread"].(map[string]any)["id"].(string)
}

func (c *codex) startTurn(thread, text string) string {
	c.t.Helper()
	raw, _ := json.Marshal(text)
	r := c.must("turn/start", fmt.Sprintf(`{"threadId":%q,"clientUserMessageId":"task-1/1","input":[{"type":"text","text":%s}]}`, thread, raw))
	return r["turn"].(map[string]any)["id"].(string)
}

// turn runs a turn to its end and returns it with its final text.
func (c *codex) turn(thread, text string) (status, answer string) {
	c.t.Helper()
	id := c.startTurn(thread, text)
	return c.ended(id)
}

func (c *codex) ended(id string) (status, answer string) {
	c.t.Helper()
	l := c.await("the end of the turn", func(l line) bool {
		if l.Method == "item/completed" {
			if it := l.Params["item"].(map[string]any); it["type"] == "agentMessage" && l.Params["turnId"] == id {
				answer, _ = it["text"].(string)
			}
		}
		return l.Method == "turn/completed" && l.Params["turn"].(map[string]any)["id"] == id
	})
	return l.Params["turn"].(map[string]any)["status"].(string), answer
}

func want(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
