package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Fault is what went wrong with a call, as far as a caller acts on it.
type Fault string

// All faults.
const (
	// FaultNone: no error.
	FaultNone Fault = ""
	// FaultNoRollout: the thread has no stored history, so it never had a turn or does not exist.
	FaultNoRollout Fault = "no_rollout"
	// FaultThreadNotLoaded: thread/read and thread/turns/list know no such stored thread, or only an empty file of it.
	FaultThreadNotLoaded Fault = "thread_not_loaded"
	// FaultThreadNotFound: the thread is not in this process's memory; resume it.
	FaultThreadNotFound Fault = "thread_not_found"
	// FaultActiveWriter: another process holds the thread.
	FaultActiveWriter Fault = "active_writer"
	// FaultArchived: the thread is archived.
	FaultArchived Fault = "archived"
	// FaultNoActiveTurn: an interrupt came before turn/started or after turn/completed.
	FaultNoActiveTurn Fault = "no_active_turn"
	// FaultOtherActiveTurn: an interrupt named another turn than the one that Codex holds as active.
	FaultOtherActiveTurn Fault = "other_active_turn"
	// FaultNoTurns: the thread's turns cannot be listed: it has none, or it is ephemeral.
	FaultNoTurns Fault = "no_turns"
	// FaultConfig: Codex cannot load its configuration.
	FaultConfig Fault = "config"
	// FaultExperimental: the method or field needs the experimentalApi capability.
	FaultExperimental Fault = "experimental"
	// FaultUnknownMethod: this app-server has no such method.
	FaultUnknownMethod Fault = "unknown_method"
	// FaultInputTooLarge: the prompt is over Codex's limit.
	FaultInputTooLarge Fault = "input_too_large"
	// FaultOverload: the server's queue was full until the call's deadline.
	FaultOverload Fault = "overload"
	// FaultReplyTooLarge: the reply's line was over the read limit.
	FaultReplyTooLarge Fault = "reply_too_large"
	// FaultInvalidThread: the thread id is malformed.
	FaultInvalidThread Fault = "invalid_thread"
	// FaultTimeout: no reply before the deadline. The request may have been carried out.
	FaultTimeout Fault = "timeout"
	// FaultConnection: the connection ended. The request may have been carried out.
	FaultConnection Fault = "connection"
	// FaultOther: anything else.
	FaultOther Fault = "other"
)

// Codes of JSON-RPC errors that Codex sends, and those made up here. The latter
// never travel: they stand in for replies that could not be taken in, and lie
// outside of what JSON-RPC and Codex use.
const (
	CodeOverload       = -32001
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603

	codeReplyTooLarge  = 7_310_001
	codeReplyMalformed = 7_310_002
	codeForgotten      = 7_310_003
)

// Error is a JSON-RPC error that the server answered a call with.
type Error struct {
	Method  string
	Code    int64
	Message string
	Data    json.RawMessage
}

// errorText bounds what a message adds to an error's text. The one for an unknown
// method lists all that exist, 5 kB of them (codex app-server 0.171.0, measured).
const errorText = 300

func (e *Error) Error() string {
	message := e.Message
	if len(message) > errorText {
		message = strings.ToValidUTF8(message[:errorText], "") + "..."
	}
	return fmt.Sprintf("%s: %s (code %d)", e.Method, message, e.Code)
}

// ConnectionError says why the connection ended. Every call that was waiting,
// and every later one, gets it.
type ConnectionError struct {
	Reason EndReason
	Err    error // detail, may be nil
}

// EndReason is why a connection ended.
type EndReason string

// All reasons of an end.
const (
	// EndOutputClosed: the app-server closed its output, as it does when it exits.
	EndOutputClosed EndReason = "output closed"
	// EndReadFailed: reading from the app-server failed.
	EndReadFailed EndReason = "read failed"
	// EndWriteTimeout: the app-server did not take its input for the whole write timeout.
	EndWriteTimeout EndReason = "write timed out"
	// EndWriteFailed: the app-server's input is closed, and its output did not end by itself.
	EndWriteFailed EndReason = "write failed"
	// EndClosed: closed from our side.
	EndClosed EndReason = "closed by us"
)

func (e *ConnectionError) Error() string {
	if e.Err == nil {
		return "connection ended: " + string(e.Reason)
	}
	return "connection ended: " + string(e.Reason) + ": " + e.Err.Error()
}

func (e *ConnectionError) Unwrap() error { return e.Err }

// faultTexts classify by message, since nearly every error of the app-server has
// the code -32600 (codex app-server 0.171.0, measured; the older texts from
// 0.135.0 on). The order matters where one text can quote another.
var faultTexts = []struct {
	text  string
	fault Fault
}{
	{"requires experimentalApi", FaultExperimental},
	{"failed to load configuration", FaultConfig},
	{"invalid permission profile", FaultConfig},
	{"already has an active writer", FaultActiveWriter},
	{"is archived", FaultArchived},
	{"no rollout found", FaultNoRollout},
	{"thread not loaded", FaultThreadNotLoaded},
	{"failed to read thread", FaultThreadNotLoaded},
	{"failed to read session metadata", FaultThreadNotLoaded},
	{"thread not found", FaultThreadNotFound},
	{"no active turn", FaultNoActiveTurn},
	{"expected active turn id", FaultOtherActiveTurn},
	{"list_turns is not supported", FaultNoTurns},
	{"is not materialized yet", FaultNoTurns},
	{"do not support thread/turns/list", FaultNoTurns},
	{"invalid session id", FaultInvalidThread},
	{"invalid thread id", FaultInvalidThread},
	{"unknown variant", FaultUnknownMethod},
}

// FaultOf classifies the error of a call.
func FaultOf(err error) Fault {
	if err == nil {
		return FaultNone
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.fault()
	}
	if _, ok := errors.AsType[*ConnectionError](err); ok {
		return FaultConnection
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return FaultTimeout
	}
	return FaultOther
}

func (e *Error) fault() Fault {
	switch e.Code {
	case CodeOverload:
		return FaultOverload
	case codeReplyTooLarge:
		return FaultReplyTooLarge
	case codeReplyMalformed, codeForgotten:
		return FaultOther
	}
	var data struct {
		Input string `json:"input_error_code"`
	}
	if decode(e.Data, &data); data.Input == "input_too_large" {
		return FaultInputTooLarge
	}
	for _, t := range faultTexts {
		if strings.Contains(e.Message, t.text) {
			return t.fault
		}
	}
	if e.Code == CodeMethodNotFound {
		return FaultUnknownMethod
	}
	return FaultOther
}

// ActiveTurn returns the turn that Codex holds as active when it refused an
// interrupt with FaultOtherActiveTurn. Up to 0.168.0 that can be the previous,
// finished turn, so it is a hint and no target.
func ActiveTurn(err error) (turnID string, ok bool) {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.fault() != FaultOtherActiveTurn {
		return "", false
	}
	_, id, ok := strings.Cut(e.Message, "but found ")
	id = strings.Trim(strings.TrimSpace(id), "`'\".")
	return id, ok && id != ""
}
