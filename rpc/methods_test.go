package rpc_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// TestMethods sends each method once and looks at both directions.
func TestMethods(t *testing.T) {
	ctx := context.Background()
	thread := `{"thread":{"id":"T","ephemeral":true,"path":null,"status":{"type":"idle"},"turns":[],"grease":1},"model":"m","modelProvider":"p","cwd":"/w","approvalPolicy":"never","sandbox":{"type":"readOnly","networkAccess":false},"activePermissionProfile":{"id":"guest-1","extends":null},"instructionSources":["/a"],"grease":{}}`
	checkThread := func(r rpc.ThreadReply, err error) error {
		if err != nil {
			return err
		}
		if r.Thread.ID != "T" || !r.Thread.Ephemeral || r.Thread.Path != nil || r.Model != "m" || r.Sandbox.Type != "readOnly" || r.Sandbox.NetworkAccess != false ||
			r.ActivePermissionProfile.ID != "guest-1" || len(r.InstructionSources) != 1 || string(r.ApprovalPolicy) != `"never"` || string(r.Raw) != thread {
			return fmt.Errorf("reply %+v", r)
		}
		return nil
	}
	for _, tc := range []struct {
		method, params, reply string
		call                  func(c *rpc.Client) error
	}{
		{"account/read", `{}`, `{"account":{"type":"chatgpt","email":"a@b","planType":"pro"},"requiresOpenaiAuth":true}`, func(c *rpc.Client) error {
			r, err := c.AccountRead(ctx, rpc.AccountReadParams{})
			return want(err, r.Account != nil && r.Account.Email == "a@b" && r.RequiresOpenAIAuth)
		}},
		{"thread/start", `{"cwd":"/w","config":{"a":[]}}`, thread, func(c *rpc.Client) error {
			return checkThread(c.ThreadStart(ctx, rpc.ThreadStartParams{Cwd: "/w", Config: map[string]any{"a": []string{}}}))
		}},
		{"thread/resume", `{"threadId":"T","excludeTurns":true}`, thread, func(c *rpc.Client) error {
			return checkThread(c.ThreadResume(ctx, rpc.ThreadResumeParams{ThreadID: "T", ExcludeTurns: true}))
		}},
		{"thread/read", `{"threadId":"T"}`, `{"thread":{"id":"T","status":{"type":"notLoaded"},"path":"/p"}}`, func(c *rpc.Client) error {
			r, err := c.ThreadRead(ctx, rpc.ThreadReadParams{ThreadID: "T"})
			return want(err, r.Thread.Status.Type == rpc.ThreadNotLoaded && r.Thread.Path != nil && *r.Thread.Path == "/p")
		}},
		{"thread/turns/list", `{"threadId":"T","limit":2,"itemsView":"summary"}`, `{"data":[{"id":"U","status":"interrupted","items":[]}],"nextCursor":"n","backwardsCursor":null}`, func(c *rpc.Client) error {
			r, err := c.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: "T", Limit: 2, ItemsView: "summary"})
			return want(err, len(r.Data) == 1 && r.Data[0].Status == rpc.TurnInterrupted && r.NextCursor == "n")
		}},
		{"thread/unsubscribe", `{"threadId":"T"}`, `{"status":"notLoaded"}`, func(c *rpc.Client) error {
			r, err := c.ThreadUnsubscribe(ctx, rpc.ThreadUnsubscribeParams{ThreadID: "T"})
			return want(err, r.Status == "notLoaded")
		}},
		{"thread/loaded/list", `{}`, `{"data":["T"],"nextCursor":null}`, func(c *rpc.Client) error {
			r, err := c.ThreadLoadedList(ctx, rpc.ThreadLoadedListParams{})
			return want(err, len(r.Data) == 1 && r.NextCursor == "")
		}},
		{"thread/compact/start", `{"threadId":"T"}`, `{}`, func(c *rpc.Client) error {
			_, err := c.ThreadCompactStart(ctx, rpc.ThreadCompactStartParams{ThreadID: "T"})
			return err
		}},
		{"thread/backgroundTerminals/clean", `{"threadId":"T"}`, `{}`, func(c *rpc.Client) error {
			_, err := c.ThreadBackgroundTerminalsClean(ctx, rpc.ThreadBackgroundTerminalsCleanParams{ThreadID: "T"})
			return err
		}},
		{"turn/start", `{"threadId":"T","input":[{"type":"text","text":"hi","text_elements":[]},{"type":"localImage","path":"/p"}],"clientUserMessageId":"a/1"}`, `{"turn":{"id":"U","status":"inProgress","startedAt":null,"items":[]}}`, func(c *rpc.Client) error {
			r, err := c.TurnStart(ctx, rpc.TurnStartParams{ThreadID: "T", ClientUserMessageID: "a/1", Input: []rpc.UserInput{{Type: rpc.InputText, Text: "hi"}, {Type: rpc.InputLocalImage, Path: "/p"}}})
			return want(err, r.Turn.ID == "U" && r.Turn.Status == rpc.TurnInProgress && r.Turn.StartedAt == nil)
		}},
		{"turn/interrupt", `{"threadId":"T","turnId":""}`, `{}`, func(c *rpc.Client) error {
			_, err := c.TurnInterrupt(ctx, rpc.TurnInterruptParams{ThreadID: "T"})
			return err
		}},
		{"model/list", `{"limit":1}`, `{"data":[{"id":"m","model":"m","displayName":"M","isDefault":true,"supportedReasoningEfforts":[{"reasoningEffort":"low","description":"d"}]}]}`, func(c *rpc.Client) error {
			r, err := c.ModelList(ctx, rpc.ModelListParams{Limit: 1})
			return want(err, len(r.Data) == 1 && r.Data[0].DisplayName == "M" && r.Data[0].IsDefault && r.Data[0].SupportedReasoningEfforts[0].ReasoningEffort == "low")
		}},
		{"config/read", `{"cwd":"/w"}`, `{"config":{"mcp_servers":{"a":{}}},"origins":{}}`, func(c *rpc.Client) error {
			r, err := c.ConfigRead(ctx, rpc.ConfigReadParams{Cwd: "/w"})
			return want(err, len(r.MCPServers()) == 1)
		}},
		{"command/exec", `{"command":["cat","f"],"permissionProfile":"g"}`, `{"exitCode":1,"stdout":"o","stderr":"e"}`, func(c *rpc.Client) error {
			r, err := c.CommandExec(ctx, rpc.CommandExecParams{Command: []string{"cat", "f"}, PermissionProfile: "g"})
			return want(err, r == rpc.CommandExecReply{ExitCode: 1, Stdout: "o", Stderr: "e"})
		}},
	} {
		t.Run(tc.method, func(t *testing.T) {
			p := newPeer(t, rpc.Options{})
			done := make(chan error, 1)
			go func() { done <- tc.call(p.client) }()
			r := p.next()
			if r.Method != tc.method || canonical(t, string(r.Params)) != canonical(t, tc.params) {
				t.Errorf("sent %s", r.Raw)
			}
			p.send(`{"id":%d,"result":%s}`, *r.ID, tc.reply)
			if err := <-done; err != nil {
				t.Error(err)
			}
			// And the error of a refused one names the method.
			go func() { done <- tc.call(p.client) }()
			p.send(`{"error":{"code":-32600,"message":"thread not found: T"},"id":%d}`, *p.next().ID)
			if err := <-done; rpc.FaultOf(err) != rpc.FaultThreadNotFound || err.Error() != tc.method+": thread not found: T (code -32600)" {
				t.Errorf("error %v", err)
			}
		})
	}
}

func want(err error, ok bool) error {
	if err == nil && !ok {
		err = fmt.Errorf("the reply was not decoded")
	}
	return err
}

func TestInitialize(t *testing.T) {
	p := newPeer(t, rpc.Options{})
	params := rpc.InitializeParams{ClientInfo: rpc.ClientInfo{Name: "n", Version: "v"}, Capabilities: &rpc.Capabilities{ExperimentalAPI: true}}
	done := make(chan error, 1)
	go func() {
		r, err := p.client.Initialize(t.Context(), params)
		done <- want(err, r.CodexHome == "/h" && r.Version() == "0.171.0")
	}()
	r := p.next()
	if r.Method != "initialize" || *r.ID != 1 || canonical(t, string(r.Params)) != canonical(t, `{"clientInfo":{"name":"n","version":"v"},"capabilities":{"experimentalApi":true}}`) {
		t.Errorf("sent %s", r.Raw)
	}
	p.send(`{"id":1,"result":{"userAgent":"n/0.171.0 (x)","codexHome":"/h"}}`)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if r := p.next(); r.Method != "initialized" || r.ID != nil {
		t.Errorf("sent %s", r.Raw)
	}
	// A refused one is not followed by initialized.
	go func() { _, err := p.client.Initialize(t.Context(), params); done <- err }()
	p.send(`{"error":{"code":-32600,"message":"Already initialized"},"id":%d}`, *p.next().ID)
	if err := <-done; rpc.FaultOf(err) != rpc.FaultOther {
		t.Error(err)
	}
	p.settle()
}

func TestThreadStart_ReplyWithoutThread(t *testing.T) {
	p := newPeer(t, rpc.Options{})
	done := make(chan error, 1)
	go func() { _, err := p.client.ThreadStart(t.Context(), rpc.ThreadStartParams{}); done <- err }()
	p.send(`{"id":%d,"result":{"thread":{}}}`, *p.next().ID)
	if err := <-done; err == nil || err.Error() != "decode reply of thread/start: no thread id" {
		t.Error(err)
	}
}
