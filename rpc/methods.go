package rpc

import (
	"context"
	"encoding/json"
	"fmt"
)

// Methods of the app-server that are called here.
const (
	MethodInitialize                     = "initialize"
	MethodAccountRead                    = "account/read"
	MethodThreadStart                    = "thread/start"
	MethodThreadResume                   = "thread/resume"
	MethodThreadRead                     = "thread/read"
	MethodThreadTurnsList                = "thread/turns/list"
	MethodThreadUnsubscribe              = "thread/unsubscribe"
	MethodThreadLoadedList               = "thread/loaded/list"
	MethodThreadCompactStart             = "thread/compact/start"
	MethodThreadBackgroundTerminalsClean = "thread/backgroundTerminals/clean"
	MethodTurnStart                      = "turn/start"
	MethodTurnInterrupt                  = "turn/interrupt"
	MethodModelList                      = "model/list"
	MethodConfigRead                     = "config/read"
	MethodCommandExec                    = "command/exec"
)

// Initialize sends initialize and, when that was answered, the notification
// initialized. It comes before every other call, once per connection.
func (c *Client) Initialize(ctx context.Context, params InitializeParams) (InitializeReply, error) {
	var reply InitializeReply
	if err := c.call(ctx, MethodInitialize, params, &reply); err != nil {
		return reply, err
	}
	return reply, c.notify(ctx, NoteInitialized)
}

// AccountRead asks who Codex is logged in as.
func (c *Client) AccountRead(ctx context.Context, params AccountReadParams) (AccountReadReply, error) {
	var reply AccountReadReply
	return reply, c.call(ctx, MethodAccountRead, params, &reply)
}

// ThreadStart makes a new thread.
func (c *Client) ThreadStart(ctx context.Context, params ThreadStartParams) (ThreadReply, error) {
	return c.thread(ctx, MethodThreadStart, params)
}

// ThreadResume loads a stored thread.
func (c *Client) ThreadResume(ctx context.Context, params ThreadResumeParams) (ThreadReply, error) {
	return c.thread(ctx, MethodThreadResume, params)
}

func (c *Client) thread(ctx context.Context, method string, params any) (ThreadReply, error) {
	var reply ThreadReply
	var raw json.RawMessage
	if err := c.call(ctx, method, params, &raw); err != nil {
		return reply, err
	}
	if err := decode(raw, &reply); err != nil {
		return reply, fmt.Errorf("decode reply of %s: %w", method, err)
	}
	reply.Raw = raw
	if reply.Thread.ID == "" {
		return reply, fmt.Errorf("decode reply of %s: no thread id", method)
	}
	return reply, nil
}

// ThreadRead reads a thread without loading it.
func (c *Client) ThreadRead(ctx context.Context, params ThreadReadParams) (ThreadReadReply, error) {
	var reply ThreadReadReply
	return reply, c.call(ctx, MethodThreadRead, params, &reply)
}

// ThreadTurnsList lists a stored thread's turns, newest first, without loading it.
func (c *Client) ThreadTurnsList(ctx context.Context, params ThreadTurnsListParams) (ThreadTurnsListReply, error) {
	var reply ThreadTurnsListReply
	return reply, c.call(ctx, MethodThreadTurnsList, params, &reply)
}

// ThreadUnsubscribe lets the server unload a thread once it has been idle.
func (c *Client) ThreadUnsubscribe(ctx context.Context, params ThreadUnsubscribeParams) (ThreadUnsubscribeReply, error) {
	var reply ThreadUnsubscribeReply
	return reply, c.call(ctx, MethodThreadUnsubscribe, params, &reply)
}

// ThreadLoadedList lists the threads in the server's memory.
func (c *Client) ThreadLoadedList(ctx context.Context, params ThreadLoadedListParams) (ThreadLoadedListReply, error) {
	var reply ThreadLoadedListReply
	return reply, c.call(ctx, MethodThreadLoadedList, params, &reply)
}

// ThreadCompactStart asks for a compaction, which runs as a turn.
func (c *Client) ThreadCompactStart(ctx context.Context, params ThreadCompactStartParams) (Empty, error) {
	var reply Empty
	return reply, c.call(ctx, MethodThreadCompactStart, params, &reply)
}

// ThreadBackgroundTerminalsClean ends a thread's background terminals, which an
// interrupt leaves running.
func (c *Client) ThreadBackgroundTerminalsClean(ctx context.Context, params ThreadBackgroundTerminalsCleanParams) (Empty, error) {
	var reply Empty
	return reply, c.call(ctx, MethodThreadBackgroundTerminalsClean, params, &reply)
}

// TurnStart starts a turn. On a thread with a running turn it would be merged
// into that one, so callers serialise per thread.
func (c *Client) TurnStart(ctx context.Context, params TurnStartParams) (TurnStartReply, error) {
	var reply TurnStartReply
	return reply, c.call(ctx, MethodTurnStart, params, &reply)
}

// TurnInterrupt asks a turn to stop; turn/completed tells when it did.
func (c *Client) TurnInterrupt(ctx context.Context, params TurnInterruptParams) (Empty, error) {
	var reply Empty
	return reply, c.call(ctx, MethodTurnInterrupt, params, &reply)
}

// ModelList lists the models that Codex offers.
func (c *Client) ModelList(ctx context.Context, params ModelListParams) (ModelListReply, error) {
	var reply ModelListReply
	return reply, c.call(ctx, MethodModelList, params, &reply)
}

// ConfigRead reads the effective configuration.
func (c *Client) ConfigRead(ctx context.Context, params ConfigReadParams) (ConfigReadReply, error) {
	var reply ConfigReadReply
	return reply, c.call(ctx, MethodConfigRead, params, &reply)
}

// CommandExec runs a command in the app-server, outside of any thread.
func (c *Client) CommandExec(ctx context.Context, params CommandExecParams) (CommandExecReply, error) {
	var reply CommandExecReply
	return reply, c.call(ctx, MethodCommandExec, params, &reply)
}
