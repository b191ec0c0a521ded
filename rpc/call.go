package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/sourcegraph/jsonrpc2"
)

// The pause after "server overloaded" grows from overloadFirst to overloadMax,
// each half to one and a half times its nominal length.
const (
	overloadFirst = 50 * time.Millisecond
	overloadMax   = 2 * time.Second
)

// errCallTimeout is the cause of a deadline that was set here.
var errCallTimeout = errors.New("no reply within the call timeout")

// call sends a request and decodes its reply into result.
//
// An overloaded server is asked again until the context ends. That is safe for
// every method, turn/start too: -32001 is what the server's door says when its
// queue is full, before anything was looked at, so the request was not accepted.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.opts.CallTimeout, errCallTimeout)
		defer cancel()
	}
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(overloadFirst), backoff.WithMaxInterval(overloadMax),
		backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0.5),
		backoff.WithMaxElapsedTime(0)) // the context bounds it
	for {
		began := time.Now()
		raw, err := c.once(ctx, method, params)
		fault := FaultOf(err)
		c.opts.Logger.Debug("call", "method", method, "duration", time.Since(began), "bytes", len(raw), "fault", string(fault))
		if err == nil {
			return decodeReply(method, raw, result)
		}
		if fault != FaultOverload || !c.sleep(ctx, pause.NextBackOff()) {
			return err
		}
	}
}

func decodeReply(method string, raw json.RawMessage, result any) error {
	if whole, ok := result.(*json.RawMessage); ok {
		*whole = raw
		return nil
	}
	if err := decode(raw, result); err != nil {
		return fmt.Errorf("decode reply of %s: %w", method, err)
	}
	return nil
}

// sleep reports whether it is worth another try.
func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= d {
		return false // the overload is the better answer than a timeout later
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-c.stream.ended:
		return false
	}
}

// once sends a request once and waits for its reply.
func (c *Client) once(ctx context.Context, method string, params any) (json.RawMessage, error) {
	if err := c.ready(ctx, method); err != nil {
		return nil, err
	}
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return nil, timedOut(ctx, method)
	case <-c.stream.ended:
		return nil, fmt.Errorf("call %s: %w", method, c.Err())
	}
	if ctx.Err() != nil {
		return nil, timedOut(ctx, method) // select may have preferred the slot
	}
	id := c.ids.Add(1)
	// Nothing below waits for the pipe: the stream queues what is written.
	waiter, err := c.conn.DispatchCall(ctx, method, params, jsonrpc2.PickID(jsonrpc2.ID{Num: id}))
	if err != nil {
		return nil, c.failed(method, err)
	}
	var raw json.RawMessage
	err = waiter.Wait(ctx, &raw)
	switch {
	case err == nil:
		return raw, nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		c.stream.forget(id)
		return nil, timedOut(ctx, method)
	default:
		return nil, c.failed(method, err)
	}
}

// ready waits until Serve has begun.
func (c *Client) ready(ctx context.Context, method string) error {
	select {
	case <-c.started:
		return nil
	default:
	}
	select {
	case <-c.started:
		return nil
	case <-ctx.Done():
		return timedOut(ctx, method)
	case <-c.stream.ended:
		return fmt.Errorf("call %s: %w", method, c.Err())
	}
}

// failed turns the library's error into ours.
func (c *Client) failed(method string, err error) error {
	if e, ok := errors.AsType[*jsonrpc2.Error](err); ok {
		out := &Error{Method: method, Code: e.Code, Message: e.Message}
		if e.Data != nil {
			out.Data = *e.Data
		}
		return out
	}
	if errors.Is(err, jsonrpc2.ErrClosed) {
		// The library closes only after the stream has ended, so there is a reason.
		err = c.Err()
	}
	return fmt.Errorf("call %s: %w", method, err)
}

func timedOut(ctx context.Context, method string) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return fmt.Errorf("call %s: %w", method, cause)
	}
	return fmt.Errorf("call %s: %w: %w", method, err, cause)
}

// notify sends a notification without parameters. It returns once it is queued.
func (c *Client) notify(ctx context.Context, method string) error {
	if err := c.ready(ctx, method); err != nil {
		return err
	}
	if err := c.conn.Notify(ctx, method, nil); err != nil {
		return c.failed(method, err)
	}
	return nil
}
