package sandbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// codexBinary is the real native codex; without it the test says so and skips.
func codexBinary(tb testing.TB) string {
	tb.Helper()
	binary := os.Getenv("CODEX_BINARY")
	if binary == "" {
		if os.Getenv("CODEX_E2E") == "require" {
			tb.Fatal("CODEX_E2E=require, but CODEX_BINARY is not set")
		}
		tb.Skip("CODEX_BINARY is not set: the real codex was not exercised")
	}
	return binary
}

// house is a work dir, a user's home and a state dir, outside /tmp, which a
// workspace-write owner may write as a whole.
type house struct {
	tb                     testing.TB
	work, state, user, dir string
	model                  *model.Server
	home                   sandbox.Home
	opts                   sandbox.Options
	rooms                  *sandbox.Rooms
}

// outsideTmp makes a directory that is removed with the test, whatever modes
// the files in it have.
func outsideTmp(tb testing.TB) string {
	tb.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		tb.Fatal(err)
	}
	dir, err := os.MkdirTemp(home, ".house-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				return os.Chmod(path, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return dir
}

// newHouse builds one on the real binary. config is appended to the user's
// config.toml; change may edit the options.
func newHouse(tb testing.TB, config string, change func(*house)) *house {
	tb.Helper()
	binary := codexBinary(tb)
	dir := outsideTmp(tb)
	srv, err := model.New(model.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = srv.Close() })
	h := &house{
		tb: tb, dir: dir, model: srv,
		work: filepath.Join(dir, "work"), state: filepath.Join(dir, "state"), user: filepath.Join(dir, "user"),
	}
	for _, d := range []string{h.work + "/tasks", h.work + "/results", h.state, h.user} {
		mustMkdir(tb, d)
	}
	mustWrite(tb, h.user+"/config.toml", topKeys(config)+srv.ConfigTOML()+tables(config))
	h.opts = sandbox.Options{
		Work: h.work, State: h.state, CodexHome: h.state + "/codex-home", CodexBinary: binary, UID: os.Getuid(),
	}
	if change != nil {
		change(h)
	}
	h.home, err = sandbox.PrepareHome(sandbox.HomeOptions{From: h.user, State: h.state})
	if err != nil {
		tb.Fatal(err)
	}
	h.opts.DeveloperInstructions = h.home.Instructions
	h.rooms, err = sandbox.OpenRooms(sandbox.RoomsDir(h.state), sandbox.Limits{})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// topKeys and tables split a configuration: TOML wants top-level keys above
// the first table, and the model's text has tables.
func topKeys(config string) string {
	if at := strings.Index(config, "\n["); at >= 0 {
		return config[:at+1]
	}
	if strings.HasPrefix(config, "[") {
		return ""
	}
	return config
}

func tables(config string) string { return strings.TrimPrefix(config, topKeys(config)) }

func (h *house) policy() *sandbox.Policy {
	h.tb.Helper()
	p, err := sandbox.New(h.opts)
	if err != nil {
		h.tb.Fatal(err)
	}
	return p
}

func (h *house) room(attachments ...task.Attachment) sandbox.Room {
	h.tb.Helper()
	room, err := h.rooms.Create(context.Background(), attachments, []string{h.dir + "/uploads"})
	if err != nil {
		h.tb.Fatal(err)
	}
	return room
}

// environ is the environment that the service would give the child, canary
// included.
func (h *house) environ(child *sandbox.Child) []string {
	base := []string{"HOME=" + h.user, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "SERVICE_SECRET=env-canary"}
	return append(sandbox.Environment(base, nil, h.home.Dir), child.Environ()...)
}

// codex is the real app-server. The client is a bare loop on purpose: these
// tests are about what codex does, and must not fail because of our own rpc.
type codex struct {
	tb     testing.TB
	in     io.WriteCloser
	lines  chan message
	next   int
	stderr *bytes.Buffer
}

type message struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Params json.RawMessage `json:"params"`
}

func (h *house) start(child *sandbox.Child, more ...string) *codex {
	h.tb.Helper()
	return h.startWith(append(child.Args(), more...), h.environ(child))
}

func (h *house) startWith(args, env []string) *codex {
	tb := h.tb
	tb.Helper()
	cmd := exec.Command(h.opts.CodexBinary, append([]string{"app-server"}, args...)...)
	cmd.Dir, cmd.Env = h.work, env
	c := &codex{tb: tb, lines: make(chan message, 4096), stderr: &bytes.Buffer{}}
	cmd.Stderr = c.stderr
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
	c.in = in
	done := make(chan struct{})
	go func() { // owned by the cleanup below; ends with the child's stdout
		defer close(done)
		defer close(c.lines)
		reader := bufio.NewReader(out)
		for {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				return
			}
			var msg message
			if json.Unmarshal(line, &msg) == nil {
				c.lines <- msg
			}
		}
	}()
	tb.Cleanup(func() {
		_ = in.Close()
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		for range c.lines { // a full channel must not keep the reader
		}
		<-done
		_ = cmd.Wait()
		timer.Stop()
	})
	c.must("initialize", map[string]any{
		"clientInfo":   map[string]string{"name": "test", "version": "0"},
		"capabilities": map[string]any{"experimentalApi": true},
	}, nil)
	c.write(map[string]any{"method": "initialized"})
	return c
}

// stop closes the child's input and waits until its output has ended.
func (c *codex) stop() {
	_ = c.in.Close()
	for range c.lines {
	}
}

func (c *codex) write(msg map[string]any) {
	c.tb.Helper()
	b, err := json.Marshal(msg)
	if err != nil {
		c.tb.Fatal(err)
	}
	if _, err := c.in.Write(append(b, '\n')); err != nil {
		c.tb.Fatalf("write: %v; stderr: %s", err, c.stderr)
	}
}

func (c *codex) until(what string, match func(message) bool) message {
	c.tb.Helper()
	deadline := time.After(60 * time.Second)
	for {
		select {
		case msg, ok := <-c.lines:
			if !ok {
				c.tb.Fatalf("codex ended while waiting for %s; stderr: %s", what, c.stderr)
			}
			if match(msg) {
				return msg
			}
		case <-deadline:
			c.tb.Fatalf("no %s within 60 s", what)
		}
	}
}

// call returns the server's error text, or decodes its result.
func (c *codex) call(method string, params, result any) error {
	c.tb.Helper()
	c.next++
	id := c.next
	c.write(map[string]any{"id": id, "method": method, "params": params})
	msg := c.until("reply to "+method, func(m message) bool { return m.ID != nil && *m.ID == id && m.Method == "" })
	if msg.Error != nil {
		return fmt.Errorf("%s: %s", method, msg.Error.Message)
	}
	if result != nil {
		if err := json.Unmarshal(msg.Result, result); err != nil {
			c.tb.Fatalf("%s: %v", method, err)
		}
	}
	return nil
}

func (c *codex) must(method string, params, result any) {
	c.tb.Helper()
	if err := c.call(method, params, result); err != nil {
		c.tb.Fatal(err)
	}
}

func (c *codex) threadStart(params rpc.ThreadStartParams) rpc.ThreadReply {
	c.tb.Helper()
	var reply rpc.ThreadReply
	c.must("thread/start", params, &reply)
	return reply
}

// exec is an ExecFunc on the running child.
func (c *codex) exec(_ context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
	var reply rpc.CommandExecReply
	err := c.call("command/exec", p, &reply)
	return reply, err
}

// mcpServers asks what the service asks before a guest's thread.
func (c *codex) mcpServers(room string) []string {
	c.tb.Helper()
	var reply rpc.ConfigReadReply
	c.must("config/read", rpc.ConfigReadParams{Cwd: room}, &reply)
	return reply.MCPServers()
}

// turn runs one turn and returns its final text.
func (c *codex) turn(thread, text string) string {
	c.tb.Helper()
	c.must("turn/start", map[string]any{"threadId": thread, "input": []any{map[string]string{"type": "text", "text": text}}}, nil)
	reply := ""
	c.until("turn/completed", func(m message) bool {
		var params struct {
			ThreadID string
			Item     rpc.Item
		}
		_ = json.Unmarshal(m.Params, &params)
		if params.ThreadID != thread {
			return false
		}
		if m.Method == "item/completed" && params.Item.Type == "agentMessage" {
			reply = params.Item.Text
		}
		return m.Method == "turn/completed"
	})
	return reply
}

func mustMkdir(tb testing.TB, dir string) {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		tb.Fatal(err)
	}
}

func mustWrite(tb testing.TB, path, text string) {
	tb.Helper()
	mustMkdir(tb, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
}

func mustSymlink(tb testing.TB, target, path string) {
	tb.Helper()
	if err := os.Symlink(target, path); err != nil {
		tb.Fatal(err)
	}
}
