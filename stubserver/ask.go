package stubserver

import (
	"encoding/json"
	"strconv"
	"time"
)

// ask is a question to the client that a turn waits for. Without an answer it
// waits for ever, as with Codex.
type ask struct {
	id     int
	method string
	flag   string // what the thread is said to wait for; "" for nothing
	item   *item
}

// Requests to the client.
const (
	askCommand     = "item/commandExecution/requestApproval"
	askFile        = "item/fileChange/requestApproval"
	askPermissions = "item/permissions/requestApproval"
	askInput       = "item/tool/requestUserInput"
	askElicitation = "mcpServer/elicitation/request"
	askTool        = "item/tool/call"
	askTokens      = "account/chatgptAuthTokens/refresh"
	askAttestation = "attestation/generate"
	askExecOld     = "execCommandApproval"
	askPatchOld    = "applyPatchApproval"
)

const askedCommand = "/bin/bash -c 'rm -rf build'"

// ask asks the client and has the turn wait.
func (s *Server) ask(r *turn, method string) {
	a := &ask{id: s.nextAsk, method: method, item: &item{Type: itemCommand, ID: "call_" + newID(), Text: askedCommand, Cwd: r.thread.meta.Cwd, Status: "inProgress"}}
	s.nextAsk++
	s.asks[a.id] = r
	r.asked, r.waiting = a, true
	switch method {
	case askCommand, askFile, askPermissions, askExecOld, askPatchOld:
		a.flag = "waitingOnApproval"
	case askInput, askElicitation:
		a.flag = "waitingOnUserInput"
	}
	if a.flag != "" {
		s.tell(r.thread, "thread/status/changed", object{"status": s.status(r.thread)})
	}
	if method == askCommand {
		s.itemStarted(r, a.item)
	}
	params := askParams(r, a)
	// Some methods name no thread; there these are more fields that do not exist.
	params["threadId"], params["turnId"] = r.thread.id(), r.id
	s.request(method, a.id, params)
}

func askParams(r *turn, a *ask) object {
	common := object{"itemId": a.item.ID, "startedAtMs": time.Now().UnixMilli(), "reason": "the stub wants to know"}
	switch a.method {
	case askCommand:
		common["kind"], common["command"], common["cwd"], common["environmentId"] = "command", askedCommand, r.thread.meta.Cwd, "local"
		common["commandActions"] = []object{{"type": "unknown", "command": askedCommand}}
		common["availableDecisions"] = []any{"accept", "cancel"}
		return common
	case askFile:
		return common
	case askPermissions:
		common["cwd"], common["permissions"] = r.thread.meta.Cwd, object{"network": object{"enabled": true}, "fileSystem": nil}
		return common
	case askInput:
		return object{"itemId": a.item.ID, "isBlocking": true, "questions": []object{{
			"id": "q", "header": "Which", "question": "Which one?", "isOther": false, "isSecret": false, "options": nil,
		}}}
	case askElicitation:
		return object{"serverName": "stub", "mode": "form", "message": "May I?", "_meta": nil, "requestedSchema": object{"type": "object", "properties": object{}}}
	case askTool:
		return object{"callId": a.item.ID, "tool": "stub", "namespace": nil, "arguments": object{}}
	case askTokens:
		return object{"reason": "unauthorized", "previousAccountId": nil}
	case askExecOld:
		return object{"conversationId": r.thread.id(), "callId": a.item.ID, "command": []string{"rm", "-rf", "build"}, "cwd": r.thread.meta.Cwd, "parsedCmd": []any{}, "reason": nil}
	case askPatchOld:
		return object{"conversationId": r.thread.id(), "callId": a.item.ID, "fileChanges": object{}, "reason": nil, "grantRoot": nil}
	default:
		return object{}
	}
}

// answered takes the client's answer to a question. One that nobody waits for any
// more does no harm.
func (s *Server) answered(m incoming) {
	id, err := strconv.Atoi(string(m.ID))
	r := s.asks[id]
	if err != nil || r == nil {
		return
	}
	delete(s.asks, id)
	a := r.asked
	r.asked, r.waiting = nil, false
	r.answer = string(m.Result)
	if m.Error != nil {
		r.answer = string(m.Error)
	}
	s.tell(r.thread, "serverRequest/resolved", object{"requestId": id})
	var decision struct {
		Decision any `json:"decision"`
	}
	_ = json.Unmarshal(m.Result, &decision)
	if a.method == askCommand {
		switch decision.Decision {
		case "decline", "cancel":
			a.item.Status = "declined"
		case "accept", "acceptForSession":
			a.item.Status = "completed"
		default: // an error, or another shape
			a.item.Status = "failed"
		}
		s.itemDone(r, a.item)
	}
	if decision.Decision == "cancel" && (a.method == askCommand || a.method == askFile) {
		s.stop(r)
		return
	}
	if a.flag != "" {
		s.tell(r.thread, "thread/status/changed", object{"status": s.status(r.thread)})
	}
	s.run(r)
}
