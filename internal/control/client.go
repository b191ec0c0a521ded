package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// ErrNoService says that no service answers.
var ErrNoService = errors.New("no codex-supervisor is running")

// Client talks to a running service. It is safe for use by several goroutines.
type Client struct {
	socket string
	http   *http.Client
}

// Dial finds the service at the first of the candidates that answers.
// [ErrNoService] when there is none; another error when one is there but must
// not be talked to.
func Dial(ctx context.Context, candidates []string) (*Client, error) {
	for _, path := range candidates {
		conn, err := dial(ctx, path)
		switch {
		case err == nil:
			_ = conn.Close()
			transport := &http.Transport{
				DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, path) },
				DisableKeepAlives: true,
			}
			return &Client{socket: path, http: &http.Client{Transport: transport, Timeout: answerTimeout + readTimeout}}, nil
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		case errors.Is(err, syscall.EACCES) && len(candidates) > 1:
			// A place that was only guessed and is somebody else's, such as what
			// a service of root's left in /run.
		default:
			return nil, fmt.Errorf("connect to the service at %q: %w", path, err)
		}
	}
	return nil, fmt.Errorf("%w (looked at %s)", ErrNoService, strings.Join(candidates, ", "))
}

// dial connects, and asks the kernel who listens: a socket in a directory that
// others can write to could be anybody's, and it is handed messages.
func dial(ctx context.Context, path string) (net.Conn, error) {
	d := net.Dialer{Timeout: probeTimeout}
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn.(*net.UnixConn))
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if me := os.Geteuid(); uid != me && uid != 0 && me != 0 {
		_ = conn.Close()
		return nil, fmt.Errorf("uid %d listens there, neither we nor root: %w", uid, fs.ErrPermission)
	}
	return conn, nil
}

// Socket is where the service was found.
func (c *Client) Socket() string { return c.socket }

// Status asks for everything.
func (c *Client) Status(ctx context.Context) (st Status, err error) {
	return st, c.do(ctx, http.MethodGet, "/v1/status", nil, &st)
}

// Threads lists the channels of a work dir ("" is the only one there is, here
// and below) and their threads.
func (c *Client) Threads(ctx context.Context, dir string) (t Threads, err error) {
	return t, c.do(ctx, http.MethodGet, dirPath(dir, "threads"), nil, &t)
}

// BindThread makes a channel use an existing thread.
func (c *Client) BindThread(ctx context.Context, dir, channel, thread string) error {
	return c.do(ctx, http.MethodPost, dirPath(dir, "threads"), BindRequest{Channel: channel, Thread: thread}, &Done{})
}

// ResetThread makes a channel start a new conversation; it returns the thread
// that it had.
func (c *Client) ResetThread(ctx context.Context, dir, channel string) (string, error) {
	var reply ResetReply
	err := c.do(ctx, http.MethodDelete, dirPath(dir, "threads")+"?"+url.Values{"channel": {channel}}.Encode(), nil, &reply)
	return reply.Thread, err
}

// Task asks what is known of a task.
func (c *Client) Task(ctx context.Context, dir, id string) (st supervisor.TaskStatus, err error) {
	return st, c.do(ctx, http.MethodGet, dirPath(dir, "tasks", id), nil, &st)
}

// DropTask adds a task.
func (c *Client) DropTask(ctx context.Context, dir string, ask DropRequest) (reply DropReply, err error) {
	return reply, c.do(ctx, http.MethodPost, dirPath(dir, "tasks"), ask, &reply)
}

// CancelTask stops a task.
func (c *Client) CancelTask(ctx context.Context, dir, id string) error {
	return c.do(ctx, http.MethodPost, dirPath(dir, "tasks", id, "cancel"), nil, &Done{})
}

// RetryTask runs a task that ended without a result.
func (c *Client) RetryTask(ctx context.Context, dir, id string) error {
	return c.do(ctx, http.MethodPost, dirPath(dir, "tasks", id, "retry"), nil, &Done{})
}

// Models lists the models that a work dir's child offers.
func (c *Client) Models(ctx context.Context, dir string) (m Models, err error) {
	return m, c.do(ctx, http.MethodGet, dirPath(dir, "models"), nil, &m)
}

// Pause stops new turns from starting, or lets them start again.
func (c *Client) Pause(ctx context.Context, dir string, paused bool) (d Done, err error) {
	action := "resume"
	if paused {
		action = "pause"
	}
	return d, c.do(ctx, http.MethodPost, dirPath(dir, action), nil, &d)
}

// Restart replaces the child.
func (c *Client) Restart(ctx context.Context, dir string) (d Done, err error) {
	return d, c.do(ctx, http.MethodPost, dirPath(dir, "restart"), nil, &d)
}

func dirPath(dir string, rest ...string) string {
	if dir == "" {
		dir = only
	}
	path := "/v1/workdirs/" + url.PathEscape(dir)
	for _, part := range rest {
		path += "/" + url.PathEscape(part)
	}
	return path
}

func (c *Client) do(ctx context.Context, method, path string, ask, into any) error {
	var body io.Reader
	if ask != nil {
		raw, err := json.Marshal(ask)
		if err != nil {
			return fmt.Errorf("write request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://codex-supervisor"+path, body)
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	reply, err := c.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the rest is our own invented address
		}
		return fmt.Errorf("ask the service at %q: %w", c.socket, err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return refusal(reply)
	}
	if err := json.NewDecoder(reply.Body).Decode(into); err != nil {
		return fmt.Errorf("read the service's answer: %w", err)
	}
	return nil
}

// maxRefusal bounds what is read of an error.
const maxRefusal = 64 << 10

func refusal(reply *http.Response) error {
	var e Error
	if err := json.NewDecoder(io.LimitReader(reply.Body, maxRefusal)).Decode(&e); err != nil || e.Code == "" || e.Message == "" {
		return &Error{
			Code: CodeInternal, Message: "the service answered " + reply.Status,
			Hint: "it may be of another version: `codex-supervisor version`",
		}
	}
	return &e
}
