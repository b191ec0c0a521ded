package rpc

import (
	"context"
	"encoding/json"

	"github.com/sourcegraph/jsonrpc2"
)

// ServerRequest is what the server asked, and how it was answered.
type ServerRequest struct {
	Method, ThreadID, TurnID string
	// Answer is AnswerDeclined or AnswerError.
	Answer string
}

// How requests of the server are answered.
const (
	// AnswerDeclined: with the method's own way to say no; the turn goes on.
	AnswerDeclined = "declined"
	// AnswerError: with a JSON-RPC error; the server takes it as a failed request.
	AnswerError = "error"
)

// Requests of the server (codex app-server 0.171.0, generated schema).
const (
	AskCommandApproval     = "item/commandExecution/requestApproval"
	AskFileChangeApproval  = "item/fileChange/requestApproval"
	AskPermissionsApproval = "item/permissions/requestApproval"
	AskUserInput           = "item/tool/requestUserInput"
	AskElicitation         = "mcpServer/elicitation/request"
	AskToolCall            = "item/tool/call"
	AskAuthTokens          = "account/chatgptAuthTokens/refresh"
	AskAttestation         = "attestation/generate"
	AskExecCommandOld      = "execCommandApproval"
	AskApplyPatchOld       = "applyPatchApproval"
)

// Decline is the answer that refuses a request of the server; ok is false when
// the method has none and a JSON-RPC error is the answer. Nothing is ever
// granted: whatever a turn may do was settled when its thread was opened. The
// shapes differ by method, and a wrong one counts as a failed request.
func Decline(method string) (result json.RawMessage, ok bool) {
	switch method {
	case AskCommandApproval, AskFileChangeApproval:
		return json.RawMessage(`{"decision":"decline"}`), true
	case AskPermissionsApproval:
		return json.RawMessage(`{"permissions":{},"scope":"turn"}`), true
	case AskUserInput:
		return json.RawMessage(`{"answers":{}}`), true
	case AskElicitation:
		return json.RawMessage(`{"action":"decline","content":null,"_meta":null}`), true
	case AskToolCall:
		return json.RawMessage(`{"contentItems":[{"type":"inputText","text":"not available"}],"success":false}`), true
	case AskExecCommandOld, AskApplyPatchOld:
		return json.RawMessage(`{"decision":{"denied":{"rejection":"not allowed"}}}`), true
	case AskAuthTokens, AskAttestation:
		return nil, false
	default:
		return nil, false
	}
}

// handle answers a request of the server on the library's read loop. It can do
// so because nothing here waits: the answer is a constant and goes into a queue.
func (c *Client) handle(ctx context.Context, conn *jsonrpc2.Conn, req *jsonrpc2.Request) {
	defer c.recovered("answer", req.Method)
	if req.Notif {
		return // never comes here, see stream
	}
	var params json.RawMessage
	if req.Params != nil {
		params = *req.Params
	}
	threadID, turnID := idsOf(params)
	asked := ServerRequest{Method: req.Method, ThreadID: threadID, TurnID: turnID, Answer: AnswerDeclined}
	var err error
	if result, ok := Decline(req.Method); ok {
		err = conn.Reply(ctx, req.ID, result)
	} else {
		asked.Answer = AnswerError
		err = conn.ReplyWithError(ctx, req.ID, &jsonrpc2.Error{Code: CodeMethodNotFound, Message: "not supported by this client"})
	}
	if err != nil {
		// The connection is ending; that is reported where it ends.
		c.opts.Logger.Debug("could not answer the app-server", "method", req.Method)
	}
	c.events.push(asked)
}
