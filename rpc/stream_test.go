package rpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sourcegraph/jsonrpc2"
	"pgregory.net/rapid"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// ghostStream skips lines that cannot be decoded, with one way of decoding or
// the other.
type ghostStream struct {
	lines  chan string
	decode func(v any, line []byte) error
	wrote  chan struct{}
}

func (s ghostStream) ReadObject(v any) error {
	for line := range s.lines {
		if s.decode(v, []byte(line)) == nil {
			return nil
		}
	}
	return io.EOF
}
func (s ghostStream) WriteObject(any) error { close(s.wrote); return nil }
func (s ghostStream) Close() error          { return nil }

// TestDecodeInto_Ghost: the library decodes into one and the same message until
// that works. What a refused request leaves in it turns the next reply into that
// request, its caller waits for ever, and the handler sees a ghost.
func TestDecodeInto_Ghost(t *testing.T) {
	run := func(decode func(any, []byte) error) (ghost string, err error) {
		s := ghostStream{lines: make(chan string), decode: decode, wrote: make(chan struct{})}
		seen := make(chan string, 1)
		conn := jsonrpc2.NewConn(context.Background(), s, handler(func(method string) { seen <- method }))
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			var result string
			err := conn.Call(ctx, "x", struct{}{}, &result, jsonrpc2.PickID(jsonrpc2.ID{Num: 1}))
			if err == nil && result != "real" {
				err = errors.New("result " + result)
			}
			done <- err
		}()
		<-s.wrote
		s.lines <- `{"id":true,"method":"ghost","params":{}}`
		s.lines <- `{"id":1,"result":"real"}`
		defer close(s.lines)
		select {
		case ghost = <-seen:
			cancel()
			return ghost, <-done
		case err = <-done:
			return "", err
		}
	}
	if ghost, err := run(rpc.DoorDecodeInto); ghost != "" || err != nil {
		t.Errorf("ghost %q, error %v", ghost, err)
	}
	// The trap is still there; otherwise this test proves nothing.
	if ghost, _ := run(func(v any, line []byte) error { return json.Unmarshal(line, v) }); ghost != "ghost" {
		t.Errorf("the library has changed: no ghost without the cure (%q)", ghost)
	}
}

type handler func(method string)

func (h handler) Handle(_ context.Context, _ *jsonrpc2.Conn, req *jsonrpc2.Request) { h(req.Method) }

// TestSketch_FindsIDs puts a long string anywhere into a message with keys in any
// order, keeps only the two ends, and expects the ids that stand in them.
func TestSketch_FindsIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := func(label string) string { return rapid.StringMatching(`[a-z"\\{}\[\],: ]{1,12}`).Draw(t, label) }
		method, thread, turn := id("method"), id("thread"), id("turn")
		kind := rapid.SampledFrom([]string{"reply", "error", "note", "request"}).Draw(t, "kind")
		number := fmt.Sprint(rapid.Uint32().Draw(t, "id"))
		long := strings.Repeat(id("filler")+"é", 20_000)
		item := object(t, "item", [][2]string{{"text", quote(long)}, {"threadId", `"decoy"`}, {"turnId", `"decoy"`}, {"id", `"decoy"`}, {"turn", `{"id":"decoy"}`}, {"n", "[1,{}]"}})
		var text string
		switch kind {
		case "reply":
			text = object(t, "reply", [][2]string{{"id", number}, {"result", item}, {"x", `{"method":"decoy"}`}})
		case "error":
			text = object(t, "error", [][2]string{{"id", number}, {"error", `{"code":1,"message":` + quote(long) + `}`}})
		default:
			members := [][2]string{{"threadId", quote(thread)}, {"item", item}, {"other", `[{"threadId":"decoy"}]`}}
			if rapid.Bool().Draw(t, "nested") {
				members = append(members, [2]string{"turn", object(t, "turn", [][2]string{{"id", quote(turn)}, {"status", `"completed"`}, {"items", "[]"}})})
			} else {
				members = append(members, [2]string{"turnId", quote(turn)})
			}
			top := [][2]string{{"method", quote(method)}, {"params", object(t, "params", members)}, {"emittedAtMs", "17"}}
			if kind == "request" {
				top = append(top, [2]string{"id", number})
			}
			text = object(t, "top", top)
		}
		if !json.Valid([]byte(text)) {
			t.Fatalf("the test made no JSON: %.300s", text)
		}
		const ends = 1 << 10
		gotMethod, gotID, gotThread, gotTurn, reply := rpc.DoorSketch([]byte(text[:ends]), []byte(text[len(text)-ends:]))
		switch kind {
		case "reply", "error":
			if gotID != number || !reply || gotMethod != "" {
				t.Fatalf("id %s reply %v method %q in %.200s ... %s", gotID, reply, gotMethod, text, text[len(text)-200:])
			}
		default:
			wantID := map[string]string{"request": number}[kind]
			if gotMethod != method || gotThread != thread || gotTurn != turn || gotID != wantID || reply {
				t.Fatalf("method %q thread %q turn %q id %q reply %v; want %q %q %q %q in %.300s ... %s", gotMethod, gotThread, gotTurn, gotID, reply, method, thread, turn, wantID, text, text[len(text)-300:])
			}
		}
	})
}

// TestSketch_CutInAWord: what stands at the very edge of the kept tail may be the
// end of something longer, and is not believed.
func TestSketch_CutInAWord(t *testing.T) {
	head := []byte(`{"result":{"text":"xxx`)
	for _, tc := range []struct{ tail, id string }{
		{`"id":5}`, ""},   // may be ...\"id
		{`\"id":5}`, ""},  // may be ...\\"id
		{`{"id":5}`, "5"}, // the whole message
		{`,"id":5}`, "5"},
		{`x"},"id":5}`, "5"},
		{`5}`, ""},
		{`:5}`, ""},
		{`]}`, ""},
		{`"id":5`, ""}, // no end of an object
		{``, ""},
	} {
		if _, id, _, _, reply := rpc.DoorSketch(head, []byte(tc.tail)); id != tc.id || !reply {
			t.Errorf("tail %s: id %q, want %q", tc.tail, id, tc.id)
		}
	}
}

// object writes members in a drawn order with drawn white space.
func object(t *rapid.T, label string, members [][2]string) string {
	gap := rapid.SampledFrom([]string{"", " ", "\t", " \r "}).Draw(t, label+" gap")
	var parts []string
	for _, m := range rapid.Permutation(members).Draw(t, label) {
		parts = append(parts, quote(m[0])+gap+":"+gap+m[1])
	}
	return "{" + gap + strings.Join(parts, gap+","+gap) + gap + "}"
}

func quote(s string) string {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// TestClient_LinesAroundTheLimit: one byte decides, and nothing of the buffers
// of one line leaks into the next.
func TestClient_LinesAroundTheLimit(t *testing.T) {
	for _, limit := range []int{200, 64 << 10, 64<<10 + 1, 300 << 10} {
		p := newPeer(t, rpc.Options{MaxLine: limit})
		var want []string
		for _, extra := range []int{0, 1, -1, 2, -100, limit, 5 * limit, 0} {
			head, tail := `{"method":"m","params":{"threadId":"T","text":"`, fmt.Sprintf(`","turnId":"%d"}}`, extra)
			p.send("%s", head+strings.Repeat("x", limit+extra-len(head)-len(tail))+tail)
			want = append(want, fmt.Sprintf("T %d %v", extra, extra > 0))
		}
		p.settle()
		p.mu.Lock()
		var got []string
		for _, n := range p.notes {
			got = append(got, fmt.Sprintf("%s %s %v", n.ThreadID, n.TurnID, n.Oversized))
			if !n.Oversized && !json.Valid(n.Params) {
				t.Errorf("params %.100s", n.Params)
			}
		}
		p.mu.Unlock()
		same(t, fmt.Sprintf("limit %d", limit), got, want)
	}
}

// FuzzLineStream: the good lines around arbitrary junk all arrive, in order, and
// a call still works afterwards.
func FuzzLineStream(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "{}", "[", `{"id":1}`, `{"id":1,"result":1}`, `{"id":true,"method":"ghost"}`, `{"method":"x","id":-1}`,
		`{"method":"x","params":{"threadId":"T`, "\x00\xff\x1b[0m", `{"error":{"code":1},"id":2}`, strings.Repeat("[", 20_000),
		strings.Repeat(`{"params":`, 500), `{"id":1,"result":{"data":["good"]}}` + "\n" + `{"id":2,"error":"x"}`,
		`{"method":"` + strings.Repeat(`\"`, 3000) + `"}`, `"}` + strings.Repeat(`]`, 3000), `{"method":"good","result":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, junk []byte) {
		p := newPeer(t, rpc.Options{MaxLine: 2048})
		for i := range 3 {
			p.send(`{"method":"good","params":{"threadId":"%d"}}`, i)
			if _, err := p.conn.Write(append(bytes.Clone(junk), '\n')); err != nil {
				t.Fatalf("junk ended the connection: %v, %v", err, p.client.Err())
			}
		}
		// The junk may hold a reply to the first call. The second one is made when
		// all of the junk was taken in.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		for _, strict := range []bool{false, true} {
			done := p.call(ctx)
			id := *p.nextCall().ID
			p.send(`{"id":%d,"result":%s}`, id, good)
			p.send(`{"method":"taken","params":{"threadId":"%d"}}`, id)
			p.until(func() bool {
				return slices.ContainsFunc(p.notes, func(n rpc.Notification) bool { return n.Method == "taken" && n.ThreadID == fmt.Sprint(id) })
			})
			if err := <-done; err != nil && strict {
				t.Errorf("call %d: %v", id, err)
			}
		}
		p.send(`{"method":"good","params":{"threadId":"3"}}`)
		var threads []string
		p.until(func() bool {
			threads = threads[:0]
			for _, n := range p.notes {
				if n.Method == "good" && !n.Oversized && strings.HasPrefix(string(n.Params), `{"threadId":"`) {
					threads = append(threads, n.ThreadID)
				}
			}
			return len(threads) >= 4
		})
		if !bytes.Contains(junk, []byte("good")) && strings.Join(threads, "") != "0123" {
			t.Errorf("good lines %v", threads)
		}
	})
}

// endless is a line of n bytes and one more line.
type endless struct{ left int }

func (e *endless) Read(p []byte) (int, error) {
	if e.left < 0 {
		return 0, io.EOF
	}
	if e.left == 0 {
		e.left--
		return copy(p, "\n{\"method\":\"after\"}\n"), nil
	}
	n := min(len(p), e.left)
	for i := range p[:n] {
		p[i] = 'x'
	}
	e.left -= n
	return n, nil
}

// TestClient_OversizedIsNotKept: a line of 256 MB costs what its limit costs.
func TestClient_OversizedIsNotKept(t *testing.T) {
	var bad []rpc.BadLine
	var notes []string
	in, other := io.Pipe()
	defer func() { _ = in.Close() }()
	client := rpc.New(rpc.Options{
		In: other, Out: &endless{left: 256 << 20}, MaxLine: 1 << 20,
		OnBadLine:      func(b rpc.BadLine) { bad = append(bad, b) },
		OnNotification: func(n rpc.Notification) { notes = append(notes, n.Method) },
	})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_ = client.Serve(context.Background())
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 16<<20 {
		t.Errorf("%d MB were allocated", used>>20)
	}
	if len(bad) != 1 || bad[0].Bytes != 256<<20 || bad[0].Kind != rpc.BadOversized || len(notes) != 1 {
		t.Errorf("bad lines %+v, notifications %v", bad, notes)
	}
}
