package rpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/jsonrpc2"
)

// Defaults of [Options].
const (
	// DefaultCallTimeout bounds calls whose context has no deadline. Codex drops
	// some requests under load without a word, so every call needs one.
	DefaultCallTimeout = 30 * time.Second
	// DefaultWriteTimeout is how long the server may leave its input untouched.
	DefaultWriteTimeout = 30 * time.Second
	// DefaultMaxLine is the longest line that is taken in.
	DefaultMaxLine = 32 << 20
	// DefaultMaxInFlight bounds the requests that wait for a reply: of 5,000 sent
	// at once 2,434 were never answered (codex app-server 0.171.0, measured).
	DefaultMaxInFlight = 32
)

// Options configure a [Client].
type Options struct {
	// In is the server's standard input. A SetWriteDeadline method is used.
	In io.WriteCloser
	// Out is the server's standard output. When it has a Close method, that is
	// called at the end of the connection and must end a blocked Read; otherwise
	// Serve can only return once Read has.
	Out io.Reader

	CallTimeout, WriteTimeout time.Duration
	MaxLine                   int
	MaxInFlight               int
	Logger                    *slog.Logger

	// OnNotification gets notifications in wire order, OnServerRequest what the
	// server asked, after it was answered, and OnBadLine lines that were skipped.
	// All three are called from one goroutine, which is not the reader's: they may
	// block, and they may make calls.
	OnNotification  func(Notification)
	OnServerRequest func(ServerRequest)
	OnBadLine       func(BadLine)
}

func (o Options) withDefaults() Options {
	if o.CallTimeout <= 0 {
		o.CallTimeout = DefaultCallTimeout
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	if o.MaxLine <= 0 {
		o.MaxLine = DefaultMaxLine
	}
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = DefaultMaxInFlight
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Client is one connection to an app-server.
type Client struct {
	opts   Options
	stream *stream
	events *queue[event]
	ids    atomic.Uint64 // the last id used; they count from 1, since 0 is what a reply without an id looks like to the library
	slots  chan struct{} // one per request that waits for its reply

	serving atomic.Bool
	conn    *jsonrpc2.Conn // set before started is closed
	started chan struct{}
	done    chan struct{}
}

// New makes a client. Nothing is read or written before [Client.Serve]; calls
// made earlier wait for it.
func New(opts Options) *Client {
	opts = opts.withDefaults()
	c := &Client{
		opts: opts, events: newQueue[event](), slots: make(chan struct{}, opts.MaxInFlight),
		started: make(chan struct{}), done: make(chan struct{}),
	}
	c.stream = newStream(opts, c.events.push)
	return c
}

// Serve runs the connection, once. It returns when the connection has ended,
// every notification that arrived was delivered and all own goroutines are gone;
// the error is that of [Client.Err]. Ending ctx is the same as [Client.Close].
func (c *Client) Serve(ctx context.Context) error {
	if c.serving.Swap(true) {
		return errors.New("serve connection: it was served before")
	}
	defer close(c.done)

	// All four goroutines are Serve's own. The pumps end with the connection, the
	// dispatcher when told so after them, since they feed it.
	var pumps, dispatcher sync.WaitGroup
	over := make(chan struct{})
	dispatcher.Go(func() { c.dispatch(over) })
	pumps.Go(c.stream.read)
	pumps.Go(c.stream.write)
	c.conn = jsonrpc2.NewConn(context.WithoutCancel(ctx), c.stream, handlerFunc(c.handle),
		jsonrpc2.SetLogger(libraryLog{c.opts.Logger}),
		// OnSend and WriteObject are called under the library's send lock, one after
		// the other, for the same message.
		jsonrpc2.OnSend(func(req *jsonrpc2.Request, _ *jsonrpc2.Response) {
			c.stream.sending = 0
			if req != nil && !req.Notif {
				c.stream.sending = req.ID.Num
			}
		}))
	close(c.started)

	select {
	case <-ctx.Done():
		c.stream.end(EndClosed, context.Cause(ctx))
	case <-c.stream.ended:
	}
	_ = c.conn.Close() // ErrClosed when the library was first
	pumps.Wait()
	<-c.stream.readOver
	close(over)
	dispatcher.Wait()
	return c.Err()
}

// Done is closed when Serve is about to return: by then every notification that
// arrived was delivered. Calls end earlier, as soon as the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err says why the connection ended, as a [*ConnectionError]; nil before that.
func (c *Client) Err() error { return c.stream.err() }

// Close ends the connection from our side: it closes both pipes, and what the
// server says after that is lost. It does not wait for [Client.Serve].
func (c *Client) Close() error {
	c.stream.end(EndClosed, nil)
	return nil
}

// event is what the dispatcher delivers.
type event interface{ isEvent() }

func (Notification) isEvent()  {}
func (ServerRequest) isEvent() {}
func (BadLine) isEvent()       {}

// dispatch delivers events in order until over is closed and none is left.
func (c *Client) dispatch(over <-chan struct{}) {
	for {
		if e, ok := c.events.pop(); ok {
			c.deliver(e)
			continue
		}
		select {
		case <-c.events.ready:
		case <-over:
			for e, ok := c.events.pop(); ok; e, ok = c.events.pop() {
				c.deliver(e)
			}
			return
		}
	}
}

func (c *Client) deliver(e event) {
	switch e := e.(type) {
	case Notification:
		defer c.recovered("notification", e.Method)
		if c.opts.OnNotification != nil {
			c.opts.OnNotification(e)
		}
	case ServerRequest:
		defer c.recovered("server request", e.Method)
		if c.opts.OnServerRequest != nil {
			c.opts.OnServerRequest(e)
		}
	case BadLine:
		defer c.recovered("bad line", string(e.Kind))
		if c.opts.OnBadLine != nil {
			c.opts.OnBadLine(e)
		}
	}
}

// recovered keeps a handler's panic from ending the process, which every other
// conversation runs in. The value is not logged: it may quote a message.
func (c *Client) recovered(what, method string) {
	if r := recover(); r != nil {
		c.opts.Logger.Error("handler panicked", "handler", what, "method", method, "panic", fmt.Sprintf("%T", r), "stack", string(debug.Stack()))
	}
}

// libraryLog takes the library's own log lines, which are about replies to
// requests that nobody waits for any more. Their arguments are left out.
type libraryLog struct{ logger *slog.Logger }

func (l libraryLog) Printf(format string, _ ...any) {
	l.logger.Debug("jsonrpc2", "format", format)
}

type handlerFunc func(context.Context, *jsonrpc2.Conn, *jsonrpc2.Request)

func (f handlerFunc) Handle(ctx context.Context, conn *jsonrpc2.Conn, req *jsonrpc2.Request) {
	f(ctx, conn, req)
}
