package rpc

import (
	"encoding/json"
	"io"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// stream is the ObjectStream under jsonrpc2. The library's own one ends the
// connection on the first line that is no message, blocks every caller behind a
// full pipe, and does not say why it ended (v0.2.3, measured).
//
// Three goroutines, all started by [Client.Serve]: read takes lines in, write
// sends them, and the library's own calls ReadObject. Notifications never pass
// through the library: it would decode and encode them again (13 bytes allocated
// per byte, keys sorted, bad UTF-8 replaced), and turns may be 20 MB long.
type stream struct {
	in           io.WriteCloser
	out          io.Reader
	maxLine      int
	writeTimeout time.Duration
	bad          badLines
	report       func(event) // to the event queue; never blocks

	incoming chan incoming    // replies and requests, from read to ReadObject
	made     *queue[incoming] // replies made up here
	outgoing *queue[outgoing]
	sending  uint64 // id of the request that the library is about to write; under its send lock

	// inputBroken is closed when nothing can be written any more, inputErr is set before.
	inputBroken chan struct{}
	inputErr    error

	// ended is closed once the connection is over, endErr is set before.
	ended   chan struct{}
	endErr  *ConnectionError
	endOnce sync.Once
	// readOver is closed when the library has got the end and will not call a handler again.
	readOver chan struct{}
	overOnce sync.Once
}

var _ jsonrpc2.ObjectStream = (*stream)(nil)

// incoming is a message for the library.
type incoming struct {
	data    []byte
	replyTo uint64 // 0 for requests
}

func newStream(opts Options, report func(event)) *stream {
	return &stream{
		in: opts.In, out: opts.Out, maxLine: opts.MaxLine, writeTimeout: opts.WriteTimeout,
		bad: badLines{logger: opts.Logger, report: report}, report: report,
		incoming: make(chan incoming), made: newQueue[incoming](), outgoing: newQueue[outgoing](),
		inputBroken: make(chan struct{}), ended: make(chan struct{}), readOver: make(chan struct{}),
	}
}

// end ends the connection; the first reason counts.
func (s *stream) end(reason EndReason, err error) {
	s.endOnce.Do(func() {
		s.endErr = &ConnectionError{Reason: reason, Err: err}
		close(s.ended)
		_ = s.in.Close() // already closed when somebody stops the child
		if c, ok := s.out.(io.Closer); ok {
			_ = c.Close()
		}
	})
}

// err is why the connection ended; nil before that.
func (s *stream) err() error {
	select {
	case <-s.ended:
		return s.endErr
	default:
		return nil
	}
}

// Close is called by the library when it closes. It does so on its own only
// after ReadObject returned an error, so the reason is known by then.
func (s *stream) Close() error {
	s.end(EndClosed, nil)
	return nil
}

// ReadObject gives the library its next message.
func (s *stream) ReadObject(v any) error {
	for {
		var m incoming
		select {
		case m = <-s.incoming:
		case <-s.made.ready:
			var ok bool
			if m, ok = s.made.pop(); !ok {
				continue
			}
		case <-s.ended:
			s.overOnce.Do(func() { close(s.readOver) })
			return io.EOF // the reason is in endErr; the library keeps none
		}
		if decodeInto(v, m.data) == nil {
			return nil
		}
		// Valid JSON of the right shape that the library refuses, such as an error
		// without a code. Whoever waits for it is told.
		s.bad.add(BadShape, line{data: m.data, size: len(m.data)})
		if m.replyTo != 0 && decodeInto(v, madeUpReply(m.replyTo, codeReplyMalformed, "the reply cannot be read").data) == nil {
			return nil
		}
	}
}

// decodeInto unmarshals into the library's message after emptying it. The library
// hands in one and the same message until a read succeeds; what a failed attempt
// leaves in it would turn the next reply into a request (v0.2.3, reproduced).
func decodeInto(v any, data []byte) error {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		p.Elem().SetZero()
	}
	return json.Unmarshal(data, v)
}

// madeUpReply stands in for a reply that could not be taken in, or that nobody
// waits for any more.
func madeUpReply(id uint64, code int64, message string) incoming {
	data, err := json.Marshal(map[string]any{"id": id, "error": map[string]any{"code": code, "message": message}})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return incoming{data: data, replyTo: id}
}

// forget ends the library's waiting for a reply: without it the entry would stay,
// with its parameters, until an answer came. A request that was not written yet
// will not be.
func (s *stream) forget(id uint64) {
	s.outgoing.remove(func(o outgoing) bool { return o.id == id })
	s.made.push(madeUpReply(id, codeForgotten, "nobody waits for this reply"))
}

// read takes lines in until the stream ends.
func (s *stream) read() {
	lines := newLineReader(s.out, s.maxLine)
	for {
		l, err := lines.next()
		if err == io.EOF {
			s.end(EndOutputClosed, nil)
			return
		}
		if err != nil {
			s.end(EndReadFailed, err)
			return
		}
		if l.oversized() {
			s.takeOversized(l)
		} else {
			s.take(l)
		}
	}
}

// envelope is a message as it stands on the wire.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

func present(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// take sorts one line.
func (s *stream) take(l line) {
	switch classOf(l.data) {
	case "object":
	case "blank":
		s.bad.add(BadBlank, l)
		return
	default:
		s.bad.add(BadNotJSON, l)
		return
	}
	var m envelope
	if err := json.Unmarshal(l.data, &m); err != nil {
		s.takeBroken(l, err)
		return
	}
	isReply := len(m.Result) > 0 || present(m.Error)
	switch {
	case m.Method != nil && !isReply && present(m.ID):
		s.takeRequest(l, m)
	case m.Method != nil && !isReply:
		threadID, turnID := idsOf(m.Params)
		s.report(Notification{Method: *m.Method, ThreadID: threadID, TurnID: turnID, Params: m.Params})
	case m.Method == nil && isReply:
		if id := replyID(m.ID); id != 0 {
			s.hand(incoming{data: append([]byte{}, l.data...), replyTo: id})
			return
		}
		// Without this the library would take a reply without an id for the answer
		// to request 0.
		s.bad.add(BadReply, l)
	default:
		s.bad.add(BadShape, l)
		if m.Method != nil && present(m.ID) {
			s.refuse(*m.Method, m.Params, m.ID, "neither request nor reply")
		}
	}
}

// takeRequest hands a server's request to the library, unless the library would
// garble its id.
func (s *stream) takeRequest(l line, m envelope) {
	_, isText := text(m.ID)
	n, err := strconv.ParseUint(string(m.ID), 10, 64)
	if isText || err == nil && n <= math.MaxInt64 {
		s.hand(incoming{data: append([]byte{}, l.data...)})
		return
	}
	s.bad.add(BadID, l)
	s.refuse(*m.Method, m.Params, m.ID, "unsupported id")
}

// takeBroken looks for somebody who waits for a line that is no JSON after all,
// or whose method is no string.
func (s *stream) takeBroken(l line, err error) {
	kind := BadMalformed
	switch err.(type) {
	case *json.UnmarshalTypeError:
		kind = BadShape
	default:
		if l.cut {
			kind = BadCut
		}
	}
	s.bad.add(kind, l)
	found := sketchOf(l.data, nil)
	if id := replyID(found.id); id != 0 && found.isReply && !found.hasMethod {
		s.made.push(madeUpReply(id, codeReplyMalformed, "the reply is no valid JSON"))
	} else if found.hasMethod && found.id != nil && json.Valid(found.id) {
		s.refuse(found.method, nil, found.id, "invalid JSON")
	}
}

// takeOversized tells whoever waits for a line that was too long to be kept.
func (s *stream) takeOversized(l line) {
	s.bad.add(BadOversized, l)
	found := sketchOf(l.head, l.tail)
	switch id := replyID(found.id); {
	case found.hasMethod && found.id == nil:
		s.report(Notification{Method: found.method, ThreadID: found.threadID, TurnID: found.turnID, Oversized: true})
	case found.hasMethod:
		s.answerRaw(ServerRequest{Method: found.method, ThreadID: found.threadID, TurnID: found.turnID, Answer: AnswerError}, found.id, "too large")
	case id != 0 && found.isReply:
		s.made.push(madeUpReply(id, codeReplyTooLarge, "a reply of "+strconv.Itoa(l.size)+" bytes is over the read limit"))
	}
}

// hand gives a message to the library, which never waits long for anything.
func (s *stream) hand(m incoming) {
	select {
	case s.incoming <- m:
	case <-s.ended:
	}
}

// refuse answers a request that the library must not see.
func (s *stream) refuse(method string, params, id json.RawMessage, why string) {
	threadID, turnID := idsOf(params)
	s.answerRaw(ServerRequest{Method: method, ThreadID: threadID, TurnID: turnID, Answer: AnswerError}, id, why)
}

func (s *stream) answerRaw(req ServerRequest, id json.RawMessage, why string) {
	data, err := json.Marshal(map[string]any{"id": id, "error": map[string]any{"code": CodeInvalidRequest, "message": why}})
	if err != nil {
		return // an id that is no JSON cannot be answered
	}
	s.outgoing.push(outgoing{data: append(data, '\n')})
	s.report(req)
}

// replyID is the id of a request of ours; 0 for anything else. Ours count from 1.
func replyID(raw json.RawMessage) uint64 {
	n, err := strconv.ParseUint(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// idsOf finds whom a message concerns, whatever its method.
func idsOf(params json.RawMessage) (threadID, turnID string) {
	var p struct {
		ThreadID       string `json:"threadId"`
		ConversationID string `json:"conversationId"` // the old API's name
		TurnID         string `json:"turnId"`
		Thread         struct {
			ID string `json:"id"`
		} `json:"thread"`
		Turn struct {
			ID string `json:"id"`
		} `json:"turn"`
	}
	_ = decode(params, &p)
	first := func(a ...string) string {
		for _, s := range a {
			if s != "" {
				return s
			}
		}
		return ""
	}
	return first(p.ThreadID, p.ConversationID, p.Thread.ID), first(p.TurnID, p.Turn.ID)
}
