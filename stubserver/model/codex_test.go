package model_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// codex is the real app-server on a home that uses a model server. The client
// here is a bare loop on purpose: the tests are about the model, and must not
// fail because of our own rpc.
type codex struct {
	tb    testing.TB
	in    io.WriteCloser
	lines chan map[string]any
	next  int
	home  string
}

func startCodex(tb testing.TB, srv *model.Server) *codex {
	tb.Helper()
	binary := os.Getenv("CODEX_BINARY")
	if binary == "" {
		tb.Skip("CODEX_BINARY is not set: the real codex was not exercised")
	}
	home := tb.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(srv.ConfigTOML()), 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(binary, "app-server",
		"-c", "features.plugins=false", "-c", "features.apps=false", "-c", "features.shell_snapshot=false",
		"-c", "allow_login_shell=false")
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	c := &codex{tb: tb, in: in, lines: make(chan map[string]any, 4096), home: home}
	done := make(chan struct{})
	go func() { // owned by the cleanup below; ends with the child's stdout
		defer close(done)
		reader := bufio.NewReader(out)
		for {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				return
			}
			var msg map[string]any
			if json.Unmarshal(line, &msg) == nil {
				c.lines <- msg
			}
		}
	}()
	tb.Cleanup(func() {
		_ = in.Close()
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		<-done
		_ = cmd.Wait()
		timer.Stop()
	})
	c.call("initialize", map[string]any{"clientInfo": map[string]string{"name": "test", "version": "0"}})
	c.write(map[string]any{"method": "initialized"})
	return c
}

func (c *codex) write(msg map[string]any) {
	c.tb.Helper()
	b, err := json.Marshal(msg)
	if err != nil {
		c.tb.Fatal(err)
	}
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *codex) until(what string, match func(map[string]any) bool) map[string]any {
	c.tb.Helper()
	deadline := time.After(30 * time.Second)
	for {
		select {
		case msg := <-c.lines:
			if match(msg) {
				return msg
			}
		case <-deadline:
			c.tb.Fatalf("no %s within 30 s", what)
		}
	}
}

func (c *codex) call(method string, params any) map[string]any {
	c.tb.Helper()
	c.next++
	id := float64(c.next)
	c.write(map[string]any{"id": c.next, "method": method, "params": params})
	msg := c.until("reply to "+method, func(m map[string]any) bool { return m["id"] == id && m["method"] == nil })
	if msg["error"] != nil {
		c.tb.Fatalf("%s: %v", method, msg["error"])
	}
	result, _ := msg["result"].(map[string]any)
	return result
}

func (c *codex) thread() string {
	c.tb.Helper()
	result := c.call("thread/start", map[string]any{"cwd": c.tb.TempDir(), "approvalPolicy": "never", "sandbox": "danger-full-access"})
	return result["thread"].(map[string]any)["id"].(string)
}

// turn runs one turn and returns its status, its final text and its error.
func (c *codex) turn(thread, text string) (status, reply string, failure map[string]any) {
	c.tb.Helper()
	c.call("turn/start", map[string]any{"threadId": thread, "input": []any{map[string]string{"type": "text", "text": text}}})
	msg := c.until("turn/completed", func(m map[string]any) bool {
		params, _ := m["params"].(map[string]any)
		if item, ok := params["item"].(map[string]any); ok && m["method"] == "item/completed" &&
			item["type"] == "agentMessage" && item["phase"] != "commentary" {
			reply, _ = item["text"].(string)
		}
		return m["method"] == "turn/completed" && params["threadId"] == thread
	})
	turn := msg["params"].(map[string]any)["turn"].(map[string]any)
	failure, _ = turn["error"].(map[string]any)
	return turn["status"].(string), reply, failure
}

func TestCodex_Words(t *testing.T) {
	srv := mustNew(t, model.Options{})
	c := startCodex(t, srv)
	thread := c.thread()
	for _, tc := range []struct{ say, status, reply string }{
		{"hello there", "completed", "You said: hello there"},
		{"[[remember blue]] please", "completed", "I will remember blue."},
		{"[[recall]]", "completed", "I remember: blue."},
		{"[[sh echo one; pwd >/dev/null]] [[sh echo two]] [[commentary]]", "completed", "one"},
		{"[[empty]]", "completed", ""},
		{"[[patch *** Begin Patch\n*** Add File: made.txt\n+hello\n*** End Patch]] [[sh cat made.txt]]", "completed", "hello"},
		{"[[slow 3]] abc", "completed", "You said: [[slow 3]] abc"},
		{"[[big 3000]]", "completed", strings.Repeat("x", 3000)},
	} {
		status, reply, failure := c.turn(thread, tc.say)
		if status != tc.status || !strings.Contains(reply, tc.reply) || (tc.reply == "" && reply != "") {
			t.Errorf("%q: %s %q %v, want %s with %q", tc.say, status, reply, failure, tc.status, tc.reply)
		}
	}
	// Another thread of the same child shares nothing.
	if _, reply, _ := c.turn(c.thread(), "[[recall]]"); reply != "I remember nothing." {
		t.Errorf("a fresh thread recalls %q", reply)
	}
}

func TestCodex_Failures(t *testing.T) {
	srv := mustNew(t, model.Options{})
	c := startCodex(t, srv)
	for _, tc := range []struct{ say, info string }{
		{"[[usage-limit 60]]", `"usageLimitExceeded"`},
		{"[[context-window]]", `"contextWindowExceeded"`},
		{"[[overloaded]]", `"serverOverloaded"`},
		{"[[http 429 slow down]]", `{"responseTooManyFailedAttempts":{"httpStatusCode":429}}`},
		{"[[http 400 bad]]", `"other"`},
		{"[[http 500 oops]]", `"internalServerError"`},
	} {
		status, reply, failure := c.turn(c.thread(), tc.say)
		info, _ := json.Marshal(failure["codexErrorInfo"])
		if status != "failed" || reply != "" || string(info) != tc.info {
			t.Errorf("%q: %s %q %s (%v), want failed %s", tc.say, status, reply, info, failure["message"], tc.info)
		}
	}
}

func TestCodex_MemorySurvivesCompaction(t *testing.T) {
	srv := mustNew(t, model.Options{})
	c := startCodex(t, srv)
	thread := c.thread()
	c.turn(thread, "[[remember green]]")
	c.call("thread/compact/start", map[string]any{"threadId": thread})
	c.until("turn/completed", func(m map[string]any) bool { return m["method"] == "turn/completed" })
	if _, reply, _ := c.turn(thread, "[[recall]]"); !strings.Contains(reply, "green") {
		t.Errorf("after compaction: %q", reply)
	}
}
