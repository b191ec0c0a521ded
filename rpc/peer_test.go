package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is a line that the client wrote.
type request struct {
	ID     *uint64         `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Raw    string          `json:"-"`
}

// peer plays the app-server on the other end of a net.Pipe, which has no buffer
// and works in a synctest bubble.
type peer struct {
	tb     testing.TB
	client *rpc.Client
	conn   net.Conn
	served chan error

	// requests are the client's lines. A peer that was made deaf reads none.
	requests chan request

	changed chan struct{} // a token after each recorded event

	mu    sync.Mutex
	notes []rpc.Notification
	asks  []rpc.ServerRequest
	bad   []rpc.BadLine
}

// newPeer starts a client and its peer. Handlers of opts that are set replace the
// recording ones.
func newPeer(tb testing.TB, opts rpc.Options) *peer {
	tb.Helper()
	return startPeer(tb, context.Background(), opts, false)
}

// startPeer can end the client's Serve by its context, and be deaf from the start.
func startPeer(tb testing.TB, serve context.Context, opts rpc.Options, deaf bool) *peer {
	tb.Helper()
	ours, theirs := net.Pipe()
	p := &peer{tb: tb, conn: theirs, served: make(chan error, 1), requests: make(chan request, 10_000), changed: make(chan struct{}, 1)}
	opts.In, opts.Out = ours, ours
	if opts.OnNotification == nil {
		opts.OnNotification = func(n rpc.Notification) { p.record(func() { p.notes = append(p.notes, n) }) }
	}
	if opts.OnServerRequest == nil {
		opts.OnServerRequest = func(r rpc.ServerRequest) { p.record(func() { p.asks = append(p.asks, r) }) }
	}
	if opts.OnBadLine == nil {
		opts.OnBadLine = func(b rpc.BadLine) { p.record(func() { p.bad = append(p.bad, b) }) }
	}
	p.client = rpc.New(opts)
	go func() { p.served <- p.client.Serve(serve) }() // ends in the cleanup
	var reader sync.WaitGroup
	if !deaf {
		reader.Go(func() {
			defer close(p.requests)
			lines := bufio.NewScanner(theirs)
			lines.Buffer(nil, 64<<20)
			for lines.Scan() {
				r := request{Raw: lines.Text()}
				_ = json.Unmarshal(lines.Bytes(), &r) // answers echo odd ids
				if !json.Valid(lines.Bytes()) {
					tb.Errorf("the client wrote %.200q", lines.Text())
				}
				p.requests <- r
			}
		})
	}
	tb.Cleanup(func() {
		_ = p.client.Close()
		_ = theirs.Close()
		<-p.client.Done()
		reader.Wait()
	})
	return p
}

// send writes one line to the client.
func (p *peer) send(format string, args ...any) {
	p.tb.Helper()
	if _, err := fmt.Fprintf(p.conn, format+"\n", args...); err != nil {
		p.tb.Fatalf("write to the client: %v", err)
	}
}

// next is the client's next line.
func (p *peer) next() request {
	p.tb.Helper()
	select {
	case r, ok := <-p.requests:
		if !ok {
			p.tb.Fatal("the client is gone")
		}
		return r
	case <-time.After(20 * time.Second):
		p.tb.Fatal("the client wrote nothing")
		panic("unreachable")
	}
}

// answerAll answers every request with a result until the client is gone.
func (p *peer) answerAll(result string) {
	go func() { // ends with the reader
		for r := range p.requests {
			if r.ID != nil && r.Method != "" {
				_, _ = fmt.Fprintf(p.conn, `{"id":%d,"result":%s}`+"\n", *r.ID, result)
			}
		}
	}()
}

// call starts a call whose outcome comes on the channel.
func (p *peer) call(ctx context.Context) <-chan error {
	out := make(chan error, 1)
	go func() { // ends with the call, which has a deadline
		reply, err := p.client.ThreadLoadedList(ctx, rpc.ThreadLoadedListParams{})
		if err == nil && (len(reply.Data) != 1 || reply.Data[0] != "good") {
			err = fmt.Errorf("reply %v", reply)
		}
		out <- err
	}()
	return out
}

const good = `{"data":["good"]}`

// settle makes a round trip, after which every earlier line was taken in, and
// waits until the events before it were delivered.
func (p *peer) settle() {
	p.tb.Helper()
	done := p.call(p.tb.Context())
	p.send(`{"id":%d,"result":%s}`, *p.nextCall().ID, good)
	if err := <-done; err != nil {
		p.tb.Fatalf("the connection is not usable any more: %v", err)
	}
	mark := fmt.Sprintf("mark/%p", done)
	p.send(`{"method":%q}`, mark)
	p.until(func() bool {
		for i, n := range p.notes {
			if n.Method == mark {
				p.notes = append(p.notes[:i:i], p.notes[i+1:]...)
				return true
			}
		}
		return false
	})
}

// nextCall skips answers of the client to the peer's own requests.
func (p *peer) nextCall() request {
	p.tb.Helper()
	for {
		if r := p.next(); r.Method != "" && r.ID != nil {
			return r
		}
	}
}

// until waits for a condition on what was recorded.
func (p *peer) until(ok func() bool) {
	p.tb.Helper()
	deadline := time.After(20 * time.Second)
	for {
		p.mu.Lock()
		done := ok()
		p.mu.Unlock()
		if done {
			return
		}
		select {
		case <-p.changed:
		case <-deadline:
			p.tb.Fatal("what was waited for did not happen")
		}
	}
}

func (p *peer) record(what func()) {
	p.mu.Lock()
	what()
	p.mu.Unlock()
	select {
	case p.changed <- struct{}{}:
	default:
	}
}
