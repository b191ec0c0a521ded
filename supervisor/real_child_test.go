package supervisor_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

// realChild is one real app-server with the policy of a house and no service
// above it: what a plain sandbox and ours do side by side can only be seen there.
type realChild struct {
	t      *testing.T
	house  *house
	home   sandbox.Home
	policy *sandbox.Child
	client *rpc.Client
	pid    int
	ended  chan rpc.TurnEvent
	items  map[string]string // thread → the newest final text
}

func startRealChild(t *testing.T, h *house, env ...string) *realChild {
	t.Helper()
	return startCodex(t, h, false, env)
}

// startBareChild starts Codex as it comes: in the user's own home, with the whole
// environment, and with nothing of ours on its command line.
func startBareChild(t *testing.T, h *house, env ...string) *realChild {
	t.Helper()
	return startCodex(t, h, true, env)
}

func startCodex(t *testing.T, h *house, bare bool, env []string) *realChild {
	t.Helper()
	w := h.opt.WorkDirs[0]
	home, err := sandbox.PrepareHome(sandbox.HomeOptions{Mode: "private", From: w.CodexHomeFrom, State: w.State})
	if err != nil {
		t.Fatal(err)
	}
	policy, err := sandbox.New(sandbox.Options{
		Mode: w.Sandbox, Work: w.Path, State: w.State, CodexHome: home.Dir, CodexBinary: w.Codex[0],
		DeveloperInstructions: home.Instructions, UID: os.Geteuid(),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := &realChild{t: t, house: h, home: home, policy: policy.NewChild(), ended: make(chan rpc.TurnEvent, 16), items: map[string]string{}}
	cmd := exec.Command(w.Codex[0], append([]string{"app-server"}, c.policy.Args()...)...)
	base := append([]string{"HOME=" + w.CodexHomeFrom, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}, env...)
	cmd.Env = append(sandbox.Environment(base, nil, home.Dir), c.policy.Environ()...)
	if bare {
		c.home.Dir = w.CodexHomeFrom
		cmd.Args, cmd.Env = cmd.Args[:2], append(base, "CODEX_HOME="+c.home.Dir)
	}
	cmd.Dir = w.Path
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.pid = cmd.Process.Pid
	c.client = rpc.New(rpc.Options{In: in, Out: out, OnNotification: c.receive})
	served := make(chan struct{})
	go func() { // ends with the child, which the cleanup ends
		defer close(served)
		_ = c.client.Serve(context.Background())
	}()
	t.Cleanup(func() {
		_ = in.Close()
		timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		<-served
		_ = cmd.Wait()
	})
	if _, err := c.client.Initialize(context.Background(), rpc.InitializeParams{
		ClientInfo:   rpc.ClientInfo{Name: "test", Version: "0"},
		Capabilities: &rpc.Capabilities{ExperimentalAPI: true},
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// receive is called from one goroutine, and a turn's text comes before its end.
func (c *realChild) receive(n rpc.Notification) {
	switch n.Method {
	case "item/completed":
		if e, err := rpc.DecodeItem(n); err == nil && e.Item.Type == "agentMessage" {
			c.items[e.ThreadID] = e.Item.Text
		}
	case "turn/completed":
		if e, err := rpc.DecodeTurn(n); err == nil {
			e.Turn.Items = []rpc.Item{{Text: c.items[e.ThreadID]}}
			c.ended <- e
		}
	}
}

func (c *realChild) open(p rpc.ThreadStartParams) rpc.ThreadReply {
	c.t.Helper()
	reply, err := c.client.ThreadStart(context.Background(), p)
	if err != nil {
		c.t.Fatal(err)
	}
	return reply
}

// openGuest is what the service does for a guest up to the turn.
func (c *realChild) openGuest(tier task.Tier, room string) rpc.ThreadReply {
	c.t.Helper()
	config, err := c.client.ConfigRead(context.Background(), rpc.ConfigReadParams{Cwd: room})
	if err != nil {
		c.t.Fatal(err)
	}
	reply := c.open(c.policy.GuestStart(tier, room, config.MCPServers()))
	if err := c.policy.CheckGuest(reply, room); err != nil {
		c.t.Fatal(err)
	}
	return reply
}

// turn runs one turn and returns its final text.
func (c *realChild) turn(thread, text string) string {
	c.t.Helper()
	if _, err := c.client.TurnStart(context.Background(), rpc.TurnStartParams{
		ThreadID: thread, Input: []rpc.UserInput{{Type: "text", Text: text}},
	}); err != nil {
		c.t.Fatal(err)
	}
	deadline := time.After(2 * patienceOfTests)
	for {
		select {
		case e := <-c.ended:
			if e.ThreadID == thread {
				return e.Turn.Items[0].Text
			}
		case <-deadline:
			c.t.Fatalf("the turn on %s does not end", thread)
		}
	}
}

func (c *realChild) unsubscribe(thread string) {
	c.t.Helper()
	if _, err := c.client.ThreadUnsubscribe(context.Background(), rpc.ThreadUnsubscribeParams{ThreadID: thread}); err != nil {
		c.t.Fatal(err)
	}
}

// room makes a guest's room below dir.
func (c *realChild) room(dir string) string {
	c.t.Helper()
	rooms, err := sandbox.OpenRooms(dir, sandbox.Limits{})
	if err != nil {
		c.t.Fatal(err)
	}
	room, err := rooms.Create(context.Background(), nil, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	return filepath.Clean(room.Dir)
}
