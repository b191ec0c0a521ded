package stubserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is a JSON object whose keys are named where it is made.
type object = map[string]any

// Codes of errors. Codex answers nearly every fault with the first.
const (
	codeInvalid     = -32600
	codeNotHere     = -32601
	codeParams      = -32602
	codeInternal    = -32603
	codeOverload    = -32001
	overloadMessage = "Server overloaded; retry later."
)

type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// fault is an error answer on its way to [Server.fail].
type fault struct {
	code    int
	message string
	data    object
}

func (f *fault) Error() string { return f.message }

func refuse(code int, format string, args ...any) *fault {
	return &fault{code: code, message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *fault { return refuse(codeInvalid, format, args...) }

// parse reads a line as Codex does; what it cannot read is dropped without an
// answer and only complained about on stderr.
func (s *Server) parse(line []byte) (incoming, bool) {
	var m incoming
	err := json.Unmarshal(line, &m)
	if err == nil && !goodID(m.ID) || err == nil && m.Method == nil && m.ID == nil {
		err = fmt.Errorf("data did not match any variant of untagged enum JSONRPCMessage")
	}
	if err != nil {
		s.complain("ERROR codex_app_server_transport::transport: Failed to deserialize JSONRPCMessage: %v", err)
		return m, false
	}
	return m, true
}

// goodID: ids are integers or strings; none is a notification.
func goodID(id json.RawMessage) bool {
	if len(id) == 0 || id[0] == '"' {
		return true
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// encode writes JSON as Codex spells it: <, >, & and the line separators raw.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return rawSeparators(b.Bytes()), nil
}

// rawSeparators undoes the one escape that encoding/json always makes.
func rawSeparators(line []byte) []byte {
	if !bytes.Contains(line, []byte(`\u202`)) {
		return line
	}
	out := make([]byte, 0, len(line))
	for i := 0; i < len(line); i++ {
		rest := line[i:]
		switch {
		case bytes.HasPrefix(rest, []byte(`\u2028`)):
			out = append(out, "\u2028"...)
			i += 5
		case bytes.HasPrefix(rest, []byte(`\u2029`)):
			out = append(out, "\u2029"...)
			i += 5
		case rest[0] == '\\':
			out = append(out, rest[0], rest[1])
			i++
		default:
			out = append(out, rest[0])
		}
	}
	return out
}

func (s *Server) send(v any) {
	line, err := encode(v)
	if err != nil {
		s.complain("stub: encode: %v", err)
		return
	}
	s.raw(line)
}

// raw writes bytes as they are. After the end nothing is said any more.
func (s *Server) raw(line []byte) {
	if !s.ended {
		s.out.write(line)
	}
}

func (s *Server) reply(id json.RawMessage, result any) {
	s.send(struct {
		ID     json.RawMessage `json:"id"`
		Result any             `json:"result"`
		Grease any             `json:"stubGrease"`
	}{id, result, 1})
}

// fail answers with an error. Its keys come in another order than those of a
// good reply, as from Codex.
func (s *Server) fail(id json.RawMessage, f *fault) {
	type wireError struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    object `json:"data,omitempty"`
	}
	s.send(struct {
		Error wireError       `json:"error"`
		ID    json.RawMessage `json:"id"`
	}{wireError{f.code, f.message, f.data}, id})
}

// notify tells the client something, unless it opted out of it.
func (s *Server) notify(method string, params object) {
	if s.optOut[method] {
		return
	}
	params["stubGrease"] = object{"later": []int{1}}
	s.send(struct {
		Method      string `json:"method"`
		Params      object `json:"params"`
		EmittedAtMs int64  `json:"emittedAtMs"`
	}{method, params, time.Now().UnixMilli()})
}

// request asks the client something.
func (s *Server) request(method string, id int, params object) {
	s.send(struct {
		Method string `json:"method"`
		ID     int    `json:"id"`
		Params object `json:"params"`
	}{method, id, params})
}

// grease says something that no client knows.
func (s *Server) grease() {
	s.notify("stub/grease", object{"threadId": "nobody", "turnId": 17, "newField": []int{1}})
}

// required finds the first field that is missing, as Codex's decoder does.
func required(params json.RawMessage, fields ...string) *fault {
	var have map[string]json.RawMessage
	if err := json.Unmarshal(params, &have); err != nil {
		return invalid("Invalid request: invalid type: %v", err)
	}
	for _, f := range fields {
		if _, ok := have[f]; !ok {
			return invalid("Invalid request: missing field `%s`", f)
		}
	}
	return nil
}

// decodeParams reads params into v.
func decodeParams(params json.RawMessage, v any) *fault {
	if err := json.Unmarshal(params, v); err != nil {
		return invalid("Invalid request: invalid type: %v", err)
	}
	return nil
}

// variant refuses a value that is not one of an enum's.
func variant(got string, of ...string) *fault {
	if slices.Contains(of, got) {
		return nil
	}
	return invalid("Invalid request: unknown variant `%s`, expected one of `%s`", got, strings.Join(of, "`, `"))
}
