package rpc_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// TestClient_Wire feeds one line each into a connection on which call 1 waits.
// Whatever the line is, the connection goes on.
func TestClient_Wire(t *testing.T) {
	const limit = 4096
	big := strings.Repeat(`\"x}{`, 2000) // a long string that looks like structure
	for _, tc := range []struct {
		name string
		line string
		// answers: the line ends call 1, with fault ("" for a good reply).
		answers bool
		fault   rpc.Fault
		bad     rpc.BadKind
		note    *rpc.Notification
		ask     *rpc.ServerRequest
		wrote   string // what the client answered
	}{
		{name: "good reply", line: `{"id":1,"result":{"data":["good"]}}`, answers: true},
		{name: "jsonrpc field", line: `{"jsonrpc":"2.0","id":1,"result":{"data":["good"]}}`, answers: true},
		{name: "unknown fields", line: `{"id":1,"result":{"data":["good"],"later":{"a":[1]}},"emittedAtMs":5,"more":null}`, answers: true},
		{name: "result before id", line: `{"result":{"data":["good"]},"id":1}`, answers: true},
		{name: "error null beside result", line: `{"id":1,"error":null,"result":{"data":["good"]}}`, answers: true},
		{name: "carriage return", line: "{\"id\":1,\"result\":{\"data\":[\"good\"]}}\r", answers: true},
		{name: "leading blanks", line: ` 	{"id":1,"result":{"data":["good"]}}`, answers: true},
		{name: "field of another type", line: `{"id":1,"result":{"data":["good"],"nextCursor":17}}`, answers: true},
		{name: "raw line separators", line: "{\"id\":1,\"result\":{\"data\":[\"good\"],\"note\":\"a\u2028b\u2029c\u0085\"}}", answers: true},
		{name: "error reply", line: `{"error":{"code":-32600,"message":"thread not found: x"},"id":1}`, answers: true, fault: rpc.FaultThreadNotFound},
		{name: "error with data", line: `{"error":{"code":-32602,"data":{"input_error_code":"input_too_large"},"message":"m"},"id":1}`, answers: true, fault: rpc.FaultInputTooLarge},
		{name: "error is a string", line: `{"id":1,"error":"thread not found"}`, answers: true, fault: rpc.FaultOther, bad: rpc.BadShape},
		{name: "error code is a string", line: `{"id":1,"error":{"code":"x","message":"m"}}`, answers: true, fault: rpc.FaultOther, bad: rpc.BadShape},
		{name: "malformed reply", line: `{"id":1,"result":{"data":[}`, answers: true, fault: rpc.FaultOther, bad: rpc.BadMalformed},
		{name: "malformed error reply", line: `{"error":{"code":1,,},"id":1}`, answers: true, fault: rpc.FaultOther, bad: rpc.BadMalformed},
		{name: "oversized reply", line: `{"id":1,"result":{"data":["` + big + `"]}}`, answers: true, fault: rpc.FaultReplyTooLarge, bad: rpc.BadOversized},
		{name: "oversized error reply", line: `{"error":{"code":-32600,"message":"` + big + `"},"id":1}`, answers: true, fault: rpc.FaultReplyTooLarge, bad: rpc.BadOversized},
		{name: "oversized string result", line: `{"result":"` + big + `","id":1}`, answers: true, fault: rpc.FaultReplyTooLarge, bad: rpc.BadOversized},

		{name: "string id", line: `{"id":"1","result":{"data":["bad"]}}`, bad: rpc.BadReply},
		{name: "null id", line: `{"id":null,"result":{"data":["bad"]}}`, bad: rpc.BadReply},
		{name: "no id", line: `{"result":{"data":["bad"]}}`, bad: rpc.BadReply},
		{name: "id 0", line: `{"id":0,"result":{"data":["bad"]}}`, bad: rpc.BadReply},
		{name: "negative id", line: `{"id":-1,"result":{}}`, bad: rpc.BadReply},
		{name: "float id", line: `{"id":1.5,"result":{}}`, bad: rpc.BadReply},
		{name: "exponent id", line: `{"id":1e0,"result":{}}`, bad: rpc.BadReply},
		{name: "huge id", line: `{"id":99999999999999999999,"result":{}}`, bad: rpc.BadReply},
		{name: "bool id", line: `{"id":true,"result":{}}`, bad: rpc.BadReply},
		{name: "unknown id", line: `{"id":77,"result":{}}`},
		{name: "blank", line: ``, bad: rpc.BadBlank},
		{name: "white space", line: "  \t\r", bad: rpc.BadBlank},
		{name: "banner", line: `direnv: loading .envrc`, bad: rpc.BadNotJSON},
		{name: "escape code", line: "\x1b[2J{\"id\":1}", bad: rpc.BadNotJSON},
		{name: "null byte", line: "\x00", bad: rpc.BadNotJSON},
		{name: "bare value", line: `17`, bad: rpc.BadNotJSON},
		{name: "batch", line: `[{"id":1,"result":{}}]`, bad: rpc.BadNotJSON},
		{name: "half a line", line: `{"method":"turn/compl`, bad: rpc.BadMalformed},
		{name: "trailing comma", line: `{"method":"x",}`, bad: rpc.BadMalformed},
		{name: "two objects", line: `{"method":"x"}{"method":"y"}`, bad: rpc.BadMalformed},
		{name: "bottomless", line: strings.Repeat(`{"a":`, 700), bad: rpc.BadMalformed},
		{name: "empty object", line: `{}`, bad: rpc.BadShape},
		{name: "log record", line: `{"level":"info","id":1}`, bad: rpc.BadShape},
		{name: "method is a number", line: `{"method":7,"params":{}}`, bad: rpc.BadShape},
		{name: "method and result", line: `{"method":"x","result":{}}`, bad: rpc.BadShape},
		{name: "oversized junk", line: `[` + big + `]`, bad: rpc.BadOversized},

		{
			name: "notification", line: `{"method":"turn/started","params":{"threadId":"T","turn":{"id":"U"}},"emittedAtMs":1}`,
			note: &rpc.Notification{Method: "turn/started", ThreadID: "T", TurnID: "U", Params: json.RawMessage(`{"threadId":"T","turn":{"id":"U"}}`)},
		},
		{
			name: "params verbatim", line: `{"method":"new/thing","params":{"z":1.0,"a":"<&>","a":12345678901234567890}}`,
			note: &rpc.Notification{Method: "new/thing", Params: json.RawMessage(`{"z":1.0,"a":"<&>","a":12345678901234567890}`)},
		},
		{name: "params of another shape", line: `{"method":"x","params":[1]}`, note: &rpc.Notification{Method: "x", Params: json.RawMessage(`[1]`)}},
		{
			name: "ids of another type", line: `{"method":"x","params":{"threadId":5,"turnId":"U"}}`,
			note: &rpc.Notification{Method: "x", TurnID: "U", Params: json.RawMessage(`{"threadId":5,"turnId":"U"}`)},
		},
		{name: "request with null id", line: `{"method":"x","id":null}`, note: &rpc.Notification{Method: "x"}},
		{
			name: "oversized turn/completed", bad: rpc.BadOversized,
			line: `{"method":"turn/completed","params":{"threadId":"T","turn":{"id":"U","rootTurnId":"R","items":[{"type":"agentMessage","id":"m","text":"` + big + `"}],"status":"completed"}},"emittedAtMs":1}`,
			note: &rpc.Notification{Method: "turn/completed", ThreadID: "T", TurnID: "U", Oversized: true},
		},
		{
			name: "oversized item/completed", bad: rpc.BadOversized,
			line: `{"method":"item/completed","params":{"item":{"type":"agentMessage","id":"m","text":"` + big + `","turnId":"no"},"threadId":"T","turnId":"U","completedAtMs":1},"emittedAtMs":1}`,
			note: &rpc.Notification{Method: "item/completed", ThreadID: "T", TurnID: "U", Oversized: true},
		},

		{
			name: "odd request id", line: `{"id":-3,"method":"item/tool/call","params":{"threadId":"T","turnId":"U"}}`, bad: rpc.BadID,
			ask: &rpc.ServerRequest{Method: "item/tool/call", ThreadID: "T", TurnID: "U", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32600,"message":"unsupported id"},"id":-3}`,
		},
		{
			name: "float request id", line: `{"id":1.5,"method":"x"}`, bad: rpc.BadID,
			ask: &rpc.ServerRequest{Method: "x", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32600,"message":"unsupported id"},"id":1.5}`,
		},
		{
			name: "huge request id", line: `{"id":9223372036854775808,"method":"x"}`, bad: rpc.BadID,
			ask: &rpc.ServerRequest{Method: "x", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32600,"message":"unsupported id"},"id":9223372036854775808}`,
		},
		{
			name: "request and reply at once", line: `{"id":1,"method":"x","result":{}}`, bad: rpc.BadShape,
			ask: &rpc.ServerRequest{Method: "x", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32600,"message":"neither request nor reply"},"id":1}`,
		},
		{
			name: "malformed request", line: `{"method":"x","id":4,"params":{]}`, bad: rpc.BadMalformed,
			ask: &rpc.ServerRequest{Method: "x", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32600,"message":"invalid JSON"},"id":4}`,
		},
		{
			name: "malformed request and reply at once", line: `{"id":1,"method":"x","result":[}`, bad: rpc.BadMalformed,
			ask: &rpc.ServerRequest{Method: "x", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32600,"message":"invalid JSON"},"id":1}`,
		},
		{
			name: "oversized request", bad: rpc.BadOversized,
			line:  `{"method":"item/fileChange/requestApproval","id":0,"params":{"threadId":"T","turnId":"U","reason":"` + big + `"}}`,
			ask:   &rpc.ServerRequest{Method: "item/fileChange/requestApproval", ThreadID: "T", TurnID: "U", Answer: rpc.AnswerError},
			wrote: `{"error":{"code":-32600,"message":"too large"},"id":0}`,
		},
		{
			name: "request id collides with ours", line: `{"id":1,"method":"item/tool/requestUserInput","params":{"threadId":"T"}}`,
			ask: &rpc.ServerRequest{Method: "item/tool/requestUserInput", ThreadID: "T", Answer: rpc.AnswerDeclined}, wrote: `{"id":1,"jsonrpc":"2.0","result":{"answers":{}}}`,
		},
		{
			name: "string request id", line: `{"id":"a\"b","method":"no/such","params":{}}`,
			ask: &rpc.ServerRequest{Method: "no/such", Answer: rpc.AnswerError}, wrote: `{"error":{"code":-32601,"message":"not supported by this client"},"id":"a\"b","jsonrpc":"2.0"}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newPeer(t, rpc.Options{MaxLine: limit})
			done := p.call(t.Context())
			if r := p.next(); *r.ID != 1 || string(r.Params) != "{}" {
				t.Fatalf("the first call was %s", r.Raw)
			}
			p.send("%s", tc.line)
			if tc.wrote != "" {
				if r := p.next(); canonical(t, r.Raw) != canonical(t, tc.wrote) {
					t.Errorf("answered %s, want %s", r.Raw, tc.wrote)
				}
			}
			if !tc.answers {
				p.settle() // call 1 still waits, and the line did not end it
				p.send(`{"id":1,"result":%s}`, good)
			}
			if err := <-done; rpc.FaultOf(err) != tc.fault {
				t.Errorf("call 1: %v (%q), want %q", err, rpc.FaultOf(err), tc.fault)
			}
			p.settle()

			p.mu.Lock()
			defer p.mu.Unlock()
			var bad []rpc.BadKind
			for _, b := range p.bad {
				bad = append(bad, b.Kind)
				if b.Bytes != len(tc.line) {
					t.Errorf("bad line of %d bytes, want %d", b.Bytes, len(tc.line))
				}
			}
			same(t, "bad lines", bad, optional(tc.bad != "", tc.bad))
			if tc.note != nil {
				same(t, "notifications", p.notes, []rpc.Notification{*tc.note})
			} else {
				same(t, "notifications", p.notes, nil)
			}
			if tc.ask != nil {
				same(t, "requests", p.asks, []rpc.ServerRequest{*tc.ask})
			} else {
				same(t, "requests", p.asks, nil)
			}
		})
	}
}

func optional[T any](ok bool, v T) []T {
	if ok {
		return []T{v}
	}
	return nil
}

func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %s, want %s", what, show(got), show(want))
	}
}

func show(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(data)
}

func canonical(t *testing.T, text string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return show(v)
}
