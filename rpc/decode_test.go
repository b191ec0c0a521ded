package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

func note(method, params string) rpc.Notification {
	return rpc.Notification{Method: method, Params: json.RawMessage(params)}
}

// The params below are what codex app-server 0.171.0 sent, shortened, with grease.
func TestDecode(t *testing.T) {
	turn, err := rpc.DecodeTurn(note(rpc.NoteTurnCompleted, `{"threadId":"T","turn":{"id":"U","rootTurnId":"U","items":[
		{"type":"agentMessage","moderation":null,"id":"m1","text":"hello","phase":"final_answer","memoryCitation":null,"startedAtMs":1},
		{"type":"somethingNew","id":"n","payload":{"a":1}},
		{"type":"agentMessage","id":"m2","text":"x","phase":null}],
		"itemsView":"summary","status":"completed","error":null,"startedAt":1796089405,"completedAt":1796089406,"durationMs":63,"grease":[1]},"grease":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	if turn.ThreadID != "T" || turn.Turn.ID != "U" || turn.Turn.Status != rpc.TurnCompleted || turn.Turn.Error != nil || turn.Turn.ItemsView != "summary" ||
		*turn.Turn.StartedAt != 1796089405 || *turn.Turn.CompletedAt != 1796089406 || *turn.Turn.DurationMs != 63 || len(turn.Turn.Items) != 3 {
		t.Errorf("turn %+v", turn)
	}
	items := turn.Turn.Items
	if items[0].Text != "hello" || items[0].Phase != rpc.PhaseFinalAnswer || items[0].ID != "m1" || items[1].Type != "somethingNew" ||
		string(items[1].Raw) != `{"type":"somethingNew","id":"n","payload":{"a":1}}` || items[2].Phase != "" {
		t.Errorf("items %+v", items)
	}

	failed, err := rpc.DecodeTurn(note(rpc.NoteTurnCompleted, `{"threadId":"T","turn":{"id":"U","items":[],"status":"failed","error":{"message":"m","codexErrorInfo":{"responseTooManyFailedAttempts":{"httpStatusCode":429}},"additionalDetails":"d"},"completedAt":null}}`))
	if err != nil || failed.Turn.Error == nil || failed.Turn.CompletedAt != nil {
		t.Fatalf("%+v, %v", failed, err)
	}
	if e := failed.Turn.Error; e.Message != "m" || e.AdditionalDetails != "d" || e.CodexErrorInfo != (rpc.ErrorInfo{Kind: rpc.ErrResponseTooManyFailedAttempts, HTTPStatus: 429}) {
		t.Errorf("error %+v", e)
	}

	item, err := rpc.DecodeItem(note(rpc.NoteItemCompleted, `{"item":{"type":"userMessage","id":"i","clientId":"task-1/2","content":[{"type":"text","text":"one","text_elements":[]},{"type":"localImage","path":"/p"},{"type":"text","text":"two"}]},"threadId":"T","turnId":"U","completedAtMs":1}`))
	if err != nil || item.ThreadID != "T" || item.TurnID != "U" || item.Item.ClientID != "task-1/2" || item.Item.Text != "one\ntwo" {
		t.Errorf("item %+v, %v", item, err)
	}
	delta, err := rpc.DecodeDelta(note(rpc.NoteAgentMessageDelta, `{"threadId":"T","turnId":"U","itemId":"m1","delta":"xx"}`))
	if err != nil || delta != (rpc.DeltaEvent{ThreadID: "T", TurnID: "U", ItemID: "m1", Delta: "xx"}) {
		t.Errorf("delta %+v, %v", delta, err)
	}
	failure, err := rpc.DecodeError(note(rpc.NoteError, `{"error":{"message":"Reconnecting... 1/5","codexErrorInfo":"other","additionalDetails":null},"willRetry":true,"threadId":"T","turnId":"U"}`))
	if err != nil || !failure.WillRetry || failure.Error.CodexErrorInfo.Kind != rpc.ErrOther || failure.Error.Message != "Reconnecting... 1/5" {
		t.Errorf("error %+v, %v", failure, err)
	}
	usage, err := rpc.DecodeTokenUsage(note(rpc.NoteTokenUsage, `{"threadId":"T","turnId":"U","tokenUsage":{"total":{"totalTokens":21,"inputTokens":11,"cachedInputTokens":3,"cacheWriteInputTokens":4,"outputTokens":10,"reasoningOutputTokens":5},"last":{"totalTokens":2},"modelContextWindow":258400}}`))
	if err != nil || usage.TokenUsage.Total != (rpc.Tokens{Total: 21, Input: 11, CachedInput: 3, CacheWriteInput: 4, Output: 10, ReasoningOutput: 5}) || usage.TokenUsage.Last.Total != 2 || *usage.TokenUsage.ModelContextWindow != 258400 {
		t.Errorf("usage %+v, %v", usage, err)
	}
	limits, err := rpc.DecodeRateLimits(note(rpc.NoteRateLimits, `{"rateLimits":{"limitId":"codex","primary":{"usedPercent":100,"windowDurationMins":300,"resetsAt":1796089405},"secondary":null,"rateLimitReachedType":"primary"}}`))
	if err != nil || limits.RateLimits.Primary == nil || *limits.RateLimits.Primary.ResetsAt != 1796089405 || limits.RateLimits.Secondary != nil || limits.RateLimits.RateLimitReachedType != "primary" {
		t.Errorf("limits %+v, %v", limits, err)
	}
	status, err := rpc.DecodeThreadStatus(note(rpc.NoteThreadStatus, `{"threadId":"T","status":{"type":"active","activeFlags":["waitingOnApproval"]}}`))
	if err != nil || status.ThreadID != "T" || status.Status.Type != rpc.ThreadActive || len(status.Status.ActiveFlags) != 1 {
		t.Errorf("status %+v, %v", status, err)
	}
	closed, err := rpc.DecodeThreadClosed(note(rpc.NoteThreadClosed, `{"threadId":"T"}`))
	if err != nil || closed.ThreadID != "T" {
		t.Errorf("closed %+v, %v", closed, err)
	}
	warning, err := rpc.DecodeConfigWarning(note(rpc.NoteConfigWarning, `{"summary":"Invalid configuration; using defaults.","details":"d","path":"/h/config.toml","range":{"start":{"line":1,"column":2},"end":{"line":1,"column":3}}}`))
	if err != nil || warning != (rpc.ConfigWarning{Summary: "Invalid configuration; using defaults.", Details: "d", Path: "/h/config.toml"}) {
		t.Errorf("warning %+v, %v", warning, err)
	}
}

func TestDecode_Refuses(t *testing.T) {
	for _, tc := range []struct {
		note rpc.Notification
		want string
	}{
		{note("turn/completed", `{"threadId":"T","turn":{"status":"completed"}}`), "decode turn/completed: no turn id"},
		{rpc.Notification{Method: "turn/completed", Oversized: true}, "decode turn/completed: the line was over the read limit"},
		{rpc.Notification{Method: "turn/started"}, "decode turn/started: no params"},
		{note("turn/started", `{`), "decode turn/started: unexpected end of JSON input"},
	} {
		if _, err := rpc.DecodeTurn(tc.note); err == nil || err.Error() != tc.want {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
	// A new shape of one field costs that field and nothing else.
	e, err := rpc.DecodeTurn(note("turn/completed", `{"threadId":9,"turn":{"durationMs":"63","error":"text","id":"U","items":[17,{"type":5,"id":"x"}],"status":"completed"}}`))
	if err != nil || e.Turn.ID != "U" || e.Turn.Status != rpc.TurnCompleted || len(e.Turn.Items) != 2 || e.Turn.Items[1].ID != "x" {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestErrorInfo(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want rpc.ErrorInfo
		out  string
	}{
		{`"usageLimitExceeded"`, rpc.ErrorInfo{Kind: rpc.ErrUsageLimitExceeded}, `"usageLimitExceeded"`},
		{`"brandNew"`, rpc.ErrorInfo{Kind: "brandNew"}, `"brandNew"`},
		{`null`, rpc.ErrorInfo{}, `null`},
		{`17`, rpc.ErrorInfo{}, `null`},
		{`{}`, rpc.ErrorInfo{}, `null`},
		{`{"httpConnectionFailed":{"httpStatusCode":401}}`, rpc.ErrorInfo{Kind: rpc.ErrHTTPConnectionFailed, HTTPStatus: 401}, `{"httpConnectionFailed":{"httpStatusCode":401}}`},
		{`{"responseStreamDisconnected":{"httpStatusCode":null}}`, rpc.ErrorInfo{Kind: rpc.ErrResponseStreamDisconnected}, `{"responseStreamDisconnected":{"httpStatusCode":null}}`},
		{`{"activeTurnNotSteerable":{"turnKind":"review"}}`, rpc.ErrorInfo{Kind: "activeTurnNotSteerable"}, `"activeTurnNotSteerable"`},
		{`{"zzz":{"httpStatusCode":1},"aaa":{"httpStatusCode":2}}`, rpc.ErrorInfo{Kind: "aaa", HTTPStatus: 2}, `"aaa"`},
	} {
		var got rpc.ErrorInfo
		if err := json.Unmarshal([]byte(tc.in), &got); err != nil || got != tc.want {
			t.Errorf("%s: %+v, %v", tc.in, got, err)
		}
		if out, err := json.Marshal(got); err != nil || string(out) != tc.out {
			t.Errorf("%s written as %s, %v", tc.in, out, err)
		}
	}
}

// Texts as codex app-server 0.171.0 wrote them, and older ones.
func TestFaultOf(t *testing.T) {
	reply := func(code int64, message, data string) error {
		return fmt.Errorf("open thread: %w", &rpc.Error{Method: "m", Code: code, Message: message, Data: json.RawMessage(data)})
	}
	for _, tc := range []struct {
		err  error
		want rpc.Fault
	}{
		{nil, rpc.FaultNone},
		{reply(-32600, "no rollout found for thread id 0", ""), rpc.FaultNoRollout},
		{reply(-32600, "thread not loaded: 0", ""), rpc.FaultThreadNotLoaded},
		{reply(-32603, "failed to read thread: /r.jsonl: failed to read session metadata", ""), rpc.FaultThreadNotLoaded},
		{reply(-32600, "thread not found: 0", ""), rpc.FaultThreadNotFound},
		{reply(-32600, "thread 0 already has an active writer", ""), rpc.FaultActiveWriter},
		{reply(-32600, "session 0 is archived. Run codex unarchive 0", ""), rpc.FaultArchived},
		{reply(-32600, "no active turn to interrupt", ""), rpc.FaultNoActiveTurn},
		{reply(-32600, "expected active turn id a but found b", ""), rpc.FaultOtherActiveTurn},
		{reply(-32601, "list_turns is not supported yet", ""), rpc.FaultNoTurns},
		{reply(-32600, "thread 0 is not materialized yet; thread/turns/list is unavailable before first user message", ""), rpc.FaultNoTurns},
		{reply(-32600, "ephemeral threads do not support thread/turns/list", ""), rpc.FaultNoTurns},
		{reply(-32600, "failed to load configuration: default_permissions requires a `[permissions]` table", ""), rpc.FaultConfig},
		{reply(-32600, "invalid permission profile: default_permissions requires a `[permissions]` table", ""), rpc.FaultConfig},
		{reply(-32600, "thread/start.permissions requires experimentalApi capability", ""), rpc.FaultExperimental},
		{reply(-32600, "Invalid request: unknown variant `no/such`, expected one of `initialize`", ""), rpc.FaultUnknownMethod},
		{reply(-32601, "no such thing", ""), rpc.FaultUnknownMethod},
		{reply(-32602, "Input exceeds the maximum length of 1048576 characters.", `{"input_error_code":"input_too_large","max_chars":1048576}`), rpc.FaultInputTooLarge},
		{reply(-32602, "other", `{"input_error_code":"other"}`), rpc.FaultOther},
		{reply(-32001, "Server overloaded; retry later.", ""), rpc.FaultOverload},
		{reply(-32600, "invalid session id: invalid character", ""), rpc.FaultInvalidThread},
		{reply(-32600, "invalid thread id: invalid character", ""), rpc.FaultInvalidThread},
		{reply(-32600, "something new", ""), rpc.FaultOther},
		{fmt.Errorf("x: %w", &rpc.ConnectionError{Reason: rpc.EndClosed, Err: context.DeadlineExceeded}), rpc.FaultConnection},
		{fmt.Errorf("x: %w", context.DeadlineExceeded), rpc.FaultTimeout},
		{context.Canceled, rpc.FaultOther},
		{errors.New("x"), rpc.FaultOther},
	} {
		if got := rpc.FaultOf(tc.err); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}

func TestError_Text(t *testing.T) {
	e := &rpc.Error{Method: "m", Code: -32600, Message: strings.Repeat("é", 5000) + "no active turn"}
	if got := e.Error(); len(got) > 330 || !utf8.ValidString(got) || !strings.HasPrefix(got, "m: éé") || !strings.HasSuffix(got, "é... (code -32600)") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	if got := rpc.FaultOf(e); got != rpc.FaultNoActiveTurn {
		t.Errorf("the whole message does not count: %q", got)
	}
}

func TestActiveTurn(t *testing.T) {
	for message, want := range map[string]string{
		"expected active turn id a but found b":     "b",
		"expected active turn id `a` but found `b`": "b",
		"expected active turn id a":                 "",
		"no active turn, but found b":               "",
	} {
		got, ok := rpc.ActiveTurn(&rpc.Error{Code: -32600, Message: message})
		if got != want || ok != (want != "") {
			t.Errorf("%s: %q %v", message, got, ok)
		}
	}
	if _, ok := rpc.ActiveTurn(errors.New("expected active turn id a but found b")); ok {
		t.Error("an error of another kind names a turn")
	}
}

func TestInitializeReply_Version(t *testing.T) {
	for agent, want := range map[string]string{
		"t/0.171.0 (Debian 12.0.0; x86_64) unknown (t; 0)":                 "0.171.0",
		"codex-supervisor/0.172.0-alpha.1 (Mac OS 15; arm64) x (y/2.0; 0)": "0.172.0-alpha.1",
		"a/b/1.2.3 (x)":  "1.2.3",
		"no version (x)": "",
		"t/unknown (x)":  "",
		"":               "",
	} {
		if got := (rpc.InitializeReply{UserAgent: agent}).Version(); got != want {
			t.Errorf("%q: version %q, want %q", agent, got, want)
		}
	}
}

func TestConfigReadReply_MCPServers(t *testing.T) {
	r := rpc.ConfigReadReply{Config: json.RawMessage(`{"model":"m","mcp_servers":{"zeta":{"command":"x"},"alpha":{}}}`)}
	same(t, "servers", r.MCPServers(), []string{"alpha", "zeta"})
	same(t, "no servers", rpc.ConfigReadReply{Config: json.RawMessage(`{"mcp_servers":null}`)}.MCPServers(), nil)
}

func TestAccountReadReply_LoginMissing(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want bool
	}{
		{`{"account":null,"requiresOpenaiAuth":true}`, true},
		{`{"account":null,"requiresOpenaiAuth":false}`, false},
		{`{"account":{"type":"apiKey"},"requiresOpenaiAuth":true}`, false},
	} {
		var r rpc.AccountReadReply
		if err := json.Unmarshal([]byte(tc.in), &r); err != nil || r.LoginMissing() != tc.want {
			t.Errorf("%s: %v, %v", tc.in, r.LoginMissing(), err)
		}
	}
}
