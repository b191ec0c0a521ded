package rpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// Everything here runs in a synctest bubble: time passes only when everybody waits.

func TestCall_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, rpc.Options{CallTimeout: 7 * time.Second})
		began := time.Now()
		err := <-p.call(context.Background())
		if took := time.Since(began); took != 7*time.Second || rpc.FaultOf(err) != rpc.FaultTimeout {
			t.Errorf("without a deadline: %v after %s", err, took)
		}
		if want := "call thread/loaded/list: context deadline exceeded: no reply within the call timeout"; err == nil || err.Error() != want {
			t.Errorf("error %q, want %q", err, want)
		}
		// A context's own deadline counts, also when it is longer.
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		began = time.Now()
		err = <-p.call(ctx)
		if took := time.Since(began); took != time.Hour || rpc.FaultOf(err) != rpc.FaultTimeout {
			t.Errorf("with a deadline: %v after %s", err, took)
		}
		// Late replies harm nobody.
		p.send(`{"id":1,"result":{"data":["late"]}}`)
		p.send(`{"id":2,"result":{"data":["late"]}}`)
		for range 2 {
			p.next()
		}
		p.settle()
	})
}

func TestCall_CancelledLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, rpc.Options{})
		for range 500 {
			ctx, cancel := context.WithCancel(context.Background())
			call := p.call(ctx)
			p.next()
			cancel()
			if err := <-call; !errors.Is(err, context.Canceled) {
				t.Fatalf("cancelled call: %v", err)
			}
		}
		synctest.Wait()
		if n := p.client.DoorPending(); n != 0 {
			t.Errorf("%d of 500 cancelled calls are still waited for", n)
		}
		p.settle()
	})
}

func TestCall_BlockedWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, context.Background(), rpc.Options{WriteTimeout: time.Minute}, true)
		began := time.Now()
		for _, d := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second} {
			ctx, cancel := context.WithTimeout(context.Background(), d)
			defer cancel()
			call := p.call(ctx)
			if err := <-call; rpc.FaultOf(err) != rpc.FaultTimeout {
				t.Errorf("call on a blocked pipe: %v", err)
			}
		}
		if took := time.Since(began); took != 6*time.Second {
			t.Errorf("the calls took %s", took)
		}
		synctest.Wait()
		if n := p.client.DoorUnwritten(); n != 0 {
			t.Errorf("%d requests that nobody waits for would still be written", n)
		}
		// What the server asks meanwhile is taken in and its answer waits its turn.
		p.send(`{"id":0,"method":"item/tool/call"}`)
		synctest.Wait()
		if n := p.client.DoorUnwritten(); n != 1 || p.client.Err() != nil {
			t.Errorf("%d answers wait, %v", n, p.client.Err())
		}
		err := <-p.served
		var end *rpc.ConnectionError
		if took := time.Since(began); took != time.Minute || !errors.As(err, &end) || end.Reason != rpc.EndWriteTimeout {
			t.Errorf("the connection ended with %v after %s", err, took)
		}
	})
}

// slowReader takes one read each tick. A long line must not time out while it
// moves at all.
func TestCall_LongLineThroughASlowPipe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := startPeer(t, context.Background(), rpc.Options{WriteTimeout: 10 * time.Second}, true)
		text := strings.Repeat("y", 1<<20)
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
			defer cancel()
			_, err := p.client.TurnStart(ctx, rpc.TurnStartParams{ThreadID: "T", Input: []rpc.UserInput{{Type: rpc.InputText, Text: text}}})
			done <- err
		}()
		var got []byte
		chunk := make([]byte, 64<<10)
		for !strings.HasSuffix(string(got), "\n") {
			time.Sleep(9 * time.Second)
			n, err := p.conn.Read(chunk)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, chunk[:n]...)
		}
		p.send(`{"id":1,"result":{"turn":{"id":"U","status":"inProgress","items":[]}}}`)
		if err := <-done; err != nil || !strings.Contains(string(got), text) {
			t.Errorf("%v after %d bytes", err, len(got))
		}
	})
}

func TestCall_OverloadIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, rpc.Options{})
		began := time.Now()
		call := p.call(context.Background())
		ids := map[uint64]bool{}
		for range 5 {
			id := *p.next().ID
			ids[id] = true
			p.send(`{"error":{"code":-32001,"message":"Server overloaded; retry later."},"id":%d}`, id)
		}
		last := *p.next().ID
		p.send(`{"id":%d,"result":%s}`, last, good)
		if err := <-call; err != nil {
			t.Error(err)
		}
		// 50+100+200+400+800 ms, each times 0.5 to 1.5.
		if took := time.Since(began); took < 775*time.Millisecond || took > 2325*time.Millisecond {
			t.Errorf("five retries took %s", took)
		}
		if len(ids) != 5 || ids[last] {
			t.Errorf("ids were used twice: %v, %d", ids, last)
		}
	})
}

func TestCall_OverloadEndsWithTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, rpc.Options{})
		tries := 0
		go func() { // ends with the peer
			for r := range p.requests {
				tries++
				fmt.Fprintf(p.conn, `{"error":{"code":-32001,"message":"busy"},"id":%d}`+"\n", *r.ID)
			}
		}()
		began := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := <-p.call(ctx)
		if rpc.FaultOf(err) != rpc.FaultOverload {
			t.Errorf("error %v", err)
		}
		// Capped at 2 s times 1.5, so at least the last 3 s are not given away.
		if took := time.Since(began); took < 7*time.Second || took > 10*time.Second || tries < 7 {
			t.Errorf("%d tries in %s", tries, took)
		}
		// The end of the connection cuts the waiting short.
		call := p.call(context.Background())
		time.Sleep(500 * time.Millisecond)
		began = time.Now()
		_ = p.client.Close()
		if err := <-call; time.Since(began) != 0 || err == nil {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

func TestCall_MaxInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, rpc.Options{MaxInFlight: 3})
		var calls []<-chan error
		for range 8 {
			calls = append(calls, p.call(context.Background()))
		}
		synctest.Wait()
		if n := len(p.requests); n != 3 {
			t.Fatalf("%d requests in flight", n)
		}
		// Waiting for a slot has the call's deadline too.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := <-p.call(ctx); rpc.FaultOf(err) != rpc.FaultTimeout {
			t.Errorf("waiting for a slot: %v", err)
		}
		p.answerAll(good)
		for _, call := range calls {
			if err := <-call; err != nil {
				t.Error(err)
			}
		}
	})
}

// brokenInput fails every write.
type brokenInput struct{ err error }

func (b brokenInput) Write([]byte) (int, error) { return 0, b.err }
func (b brokenInput) Close() error              { return nil }

func TestClient_BrokenInput(t *testing.T) {
	for _, tc := range []struct {
		name  string
		err   error
		after time.Duration // 0: not by itself
	}{
		{"the server went away", syscall.EPIPE, 2 * time.Second},
		{"we closed it to stop the child", os.ErrClosed, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out, childOut := net.Pipe()
				var notes []string
				client := rpc.New(rpc.Options{In: brokenInput{tc.err}, Out: out, OnNotification: func(n rpc.Notification) { notes = append(notes, n.Method) }})
				served := make(chan error, 1)
				go func() { served <- client.Serve(context.Background()) }()
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				began := time.Now()
				if _, err := client.ModelList(ctx, rpc.ModelListParams{}); err == nil {
					t.Error("no error")
				}
				fmt.Fprintln(childOut, `{"method":"tail"}`)
				if tc.after == 0 {
					time.Sleep(time.Hour) // a long drain
					fmt.Fprintln(childOut, `{"method":"end"}`)
					_ = childOut.Close()
				}
				err := <-served
				var end *rpc.ConnectionError
				if !errors.As(err, &end) {
					t.Fatalf("Serve: %v", err)
				}
				if tc.after != 0 {
					if end.Reason != rpc.EndWriteFailed || time.Since(began) != tc.after || strings.Join(notes, " ") != "tail" {
						t.Errorf("%v after %s, notes %v", err, time.Since(began), notes)
					}
				} else if end.Reason != rpc.EndOutputClosed || strings.Join(notes, " ") != "tail end" {
					t.Errorf("%v, notes %v", err, notes)
				}
				_ = childOut.Close()
			})
		})
	}
}

// stuckInput has no deadlines; only Close frees its Write.
type stuckInput struct{ closed chan struct{} }

func (s stuckInput) Write([]byte) (int, error) { <-s.closed; return 0, io.ErrClosedPipe }
func (s stuckInput) Close() error              { close(s.closed); return nil }

func TestClient_WriteTimeoutWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, childOut := net.Pipe()
		client := rpc.New(rpc.Options{In: stuckInput{make(chan struct{})}, Out: out, WriteTimeout: 5 * time.Second})
		served := make(chan error, 1)
		go func() { served <- client.Serve(context.Background()) }()
		began := time.Now()
		_, err := client.ModelList(context.Background(), rpc.ModelListParams{})
		var end *rpc.ConnectionError
		if !errors.As(err, &end) || end.Reason != rpc.EndWriteTimeout || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		<-served
		_ = childOut.Close()
	})
}

// lateOutput hands out its last line only after it was closed.
type lateOutput struct {
	release chan struct{}
	text    io.Reader
}

func (l lateOutput) Read(p []byte) (int, error) { <-l.release; return l.text.Read(p) }
func (l lateOutput) Close() error               { return nil }

// Serve does not return while anything of it still runs.
func TestClient_ServeWaitsForItsGoroutines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, other := net.Pipe()
		out := lateOutput{make(chan struct{}), strings.NewReader("{\"method\":\"late\"}\n")}
		var notes []string
		client := rpc.New(rpc.Options{In: in, Out: out, OnNotification: func(n rpc.Notification) { notes = append(notes, n.Method) }})
		served := make(chan error, 1)
		go func() { served <- client.Serve(context.Background()) }()
		_ = client.Close()
		synctest.Wait()
		select {
		case <-served:
			t.Error("Serve returned while its reader was reading")
		case <-client.Done():
			t.Error("done while the reader was reading")
		default:
		}
		close(out.release)
		<-served
		if len(notes) != 1 {
			t.Errorf("notifications %v", notes)
		}
		_ = other.Close()
	})
}

// badOutput fails in the middle.
type badOutput struct{ r io.Reader }

func (b badOutput) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err == io.EOF {
		err = errors.New("input/output error")
	}
	return n, err
}

func TestClient_ReadError(t *testing.T) {
	in, out := net.Pipe()
	defer func() { _ = out.Close() }()
	var notes int
	client := rpc.New(rpc.Options{In: in, Out: badOutput{strings.NewReader("{\"method\":\"a\"}\nhalf")}, OnNotification: func(rpc.Notification) { notes++ }})
	err := client.Serve(context.Background())
	if err == nil || err.Error() != "connection ended: read failed: input/output error" || notes != 1 {
		t.Errorf("%v, %d notifications", err, notes)
	}
}
