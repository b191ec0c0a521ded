package rpc

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"
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
	// Out is the server's standard output. When it has a Close method that is
	// called at the end of the connection, which must end a blocked Read.
	Out io.Reader

	CallTimeout, WriteTimeout time.Duration
	MaxLine                   int
	MaxInFlight               int
	Logger                    *slog.Logger

	// OnNotification gets notifications in wire order, OnServerRequest what the
	// server asked, after it was answered, and OnBadLine lines that were skipped.
	// All three are called from one goroutine, in the order of the lines, and may
	// block without stopping the reader. They may make calls.
	OnNotification  func(Notification)
	OnServerRequest func(ServerRequest)
	OnBadLine       func(BadLine)
}

// ServerRequest is what the server asked, and how it was answered.
type ServerRequest struct {
	Method, ThreadID, TurnID string
	// Answer is AnswerDeclined or AnswerError.
	Answer string
}

// BadLine is a line that was skipped. It holds nothing of the line's text.
type BadLine struct {
	Kind  BadKind
	Bytes int
	// First is the class of the line's first byte: object, array, escape, digit, text, blank, binary.
	First string
	// Count is the number of bad lines so far on this connection.
	Count uint64
}

// BadKind is what is wrong with a line.
type BadKind string

// Client is one connection to an app-server.
type Client struct{ opts Options }

// New makes a client. Nothing is read or written before [Client.Serve].
func New(opts Options) *Client { return &Client{opts: opts} }

// Serve runs the connection. It returns when the connection has ended, every
// notification that arrived was delivered and all own goroutines are gone; the
// error is the one of [Client.Err]. Ending ctx is the same as [Client.Close].
func (c *Client) Serve(ctx context.Context) error { return errors.New("not built yet") }

// Done is closed when Serve is about to return: by then every notification that
// arrived was delivered.
func (c *Client) Done() <-chan struct{} { return nil }

// Err says why the connection ended, as a [*ConnectionError]; nil before that.
func (c *Client) Err() error { return nil }

// Close ends the connection from our side. It does not wait for [Client.Serve].
func (c *Client) Close() error { return nil }

func (c *Client) call(ctx context.Context, method string, params, result any) error {
	return errors.New("not built yet")
}

func (c *Client) notify(ctx context.Context, method string) error {
	return errors.New("not built yet")
}
