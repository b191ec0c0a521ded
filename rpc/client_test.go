package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

func TestClient_Order(t *testing.T) {
	const count = 20_000
	var mu sync.Mutex
	var seen []string
	release, full := make(chan struct{}), make(chan struct{})
	p := newPeer(t, rpc.Options{OnNotification: func(n rpc.Notification) {
		<-release // the reader must not mind
		mu.Lock()
		defer mu.Unlock()
		if seen = append(seen, n.TurnID); len(seen) == count {
			close(full)
		}
	}})
	done := p.call(t.Context())
	id := *p.next().ID
	var out bytes.Buffer
	for i := range count {
		fmt.Fprintf(&out, `{"method":"item/agentMessage/delta","params":{"threadId":"T","turnId":"%d","delta":"x"}}`+"\n", i)
		if i == count/2 {
			fmt.Fprintf(&out, `{"id":%d,"result":%s}`+"\n", id, good)
		}
	}
	if _, err := p.conn.Write(out.Bytes()); err != nil {
		t.Fatal(err)
	}
	// The reply came through although not one notification was taken.
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	close(release)
	<-full
	for i, id := range seen {
		if id != fmt.Sprint(i) {
			t.Fatalf("notification %d carries %s", i, id)
		}
	}
}

func TestClient_ServerRequests(t *testing.T) {
	answers := map[string]string{
		"item/commandExecution/requestApproval": `{"decision":"decline"}`,
		"item/fileChange/requestApproval":       `{"decision":"decline"}`,
		"item/permissions/requestApproval":      `{"permissions":{},"scope":"turn"}`,
		"item/tool/requestUserInput":            `{"answers":{}}`,
		"mcpServer/elicitation/request":         `{"action":"decline","content":null,"_meta":null}`,
		"item/tool/call":                        `{"contentItems":[{"type":"inputText","text":"not available"}],"success":false}`,
		"execCommandApproval":                   `{"decision":{"denied":{"rejection":"not allowed"}}}`,
		"applyPatchApproval":                    `{"decision":{"denied":{"rejection":"not allowed"}}}`,
		"account/chatgptAuthTokens/refresh":     "",
		"attestation/generate":                  "",
		"some/newRequest":                       "",
	}
	p := newPeer(t, rpc.Options{})
	for method, answer := range answers {
		ids := `"threadId":"T","turnId":"U"`
		if strings.HasSuffix(method, "Approval") && !strings.Contains(method, "/") {
			ids = `"conversationId":"T"`
		}
		p.send(`{"id":0,"method":%q,"params":{%s}}`, method, ids)
		want := fmt.Sprintf(`{"id":0,"jsonrpc":"2.0","result":%s}`, answer)
		if answer == "" {
			want = `{"id":0,"jsonrpc":"2.0","error":{"code":-32601,"message":"not supported by this client"}}`
		}
		if got := p.next(); canonical(t, got.Raw) != canonical(t, want) {
			t.Errorf("%s answered %s, want %s", method, got.Raw, want)
		}
		p.until(func() bool { return len(p.asks) == 1 })
		asked := p.asks[0]
		p.asks = nil
		wantAnswer := rpc.AnswerDeclined
		if answer == "" {
			wantAnswer = rpc.AnswerError
		}
		if asked.Method != method || asked.ThreadID != "T" || asked.Answer != wantAnswer {
			t.Errorf("recorded %+v", asked)
		}
	}
}

func TestClient_HandlersMayCallAndPanic(t *testing.T) {
	var log lockedBuffer
	var p *peer
	called := make(chan error, 1)
	p = newPeer(t, rpc.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		OnNotification: func(n rpc.Notification) {
			switch n.Method {
			case "panic":
				panic("secret text " + string(n.Params))
			case "call":
				called <- <-p.call(context.Background())
			}
		},
		OnServerRequest: func(rpc.ServerRequest) { panic("ask") },
		OnBadLine:       func(rpc.BadLine) { panic("bad") },
	})
	p.send(`{"method":"panic","params":"hush"}`)
	p.send(`{"id":3,"method":"item/tool/call"}`)
	if r := p.next(); !strings.Contains(r.Raw, "not available") {
		t.Errorf("answered %s", r.Raw)
	}
	p.send(`junk of a secret kind`)
	p.send(`{"method":"call"}`)
	p.send(`{"id":%d,"result":%s}`, *p.next().ID, good)
	if err := <-called; err != nil {
		t.Errorf("call from a handler: %v", err)
	}
	// A request is answered first and recorded afterwards, in an order of its own.
	for deadline := time.Now().Add(10 * time.Second); strings.Count(log.String(), "handler panicked") < 3 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	text := log.String()
	if strings.Count(text, "handler panicked") != 3 || !strings.Contains(text, "method=panic") {
		t.Errorf("log: %s", text)
	}
	for _, secret := range []string{"secret", "hush"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log quotes %q: %s", secret, text)
		}
	}
}

// TestClient_LogsNoText runs everything that logs, at debug, and looks for
// anybody's words.
func TestClient_LogsNoText(t *testing.T) {
	var log lockedBuffer
	p := newPeer(t, rpc.Options{MaxLine: 300, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	p.send(`SECRET banner`)
	p.send(`{"method":"x","params":{"text":"SECRET"},}`)
	p.send(`{"method":"x","params":{"text":"%s"}}`, strings.Repeat("SECRET", 100))
	p.send(`{"id":99,"result":{"text":"SECRET"}}`)
	p.send(`{"method":"x","params":{"text":"SECRET"}}`)
	done := make(chan error, 1)
	go func() {
		_, err := p.client.TurnStart(t.Context(), rpc.TurnStartParams{ThreadID: "T", Input: []rpc.UserInput{{Type: rpc.InputText, Text: "SECRET"}}})
		done <- err
	}()
	p.send(`{"error":{"code":-32600,"message":"SECRET"},"id":%d}`, *p.next().ID)
	if err := <-done; err == nil {
		t.Error("no error")
	}
	p.settle()
	text := log.String()
	for _, want := range []string{"kind=not_json bytes=13 first=letter count=1", "kind=malformed", "kind=oversized", "method=turn/start", "fault=other"} {
		if !strings.Contains(text, want) {
			t.Errorf("the log lacks %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "SECRET") {
		t.Errorf("the log quotes a message:\n%s", text)
	}
}

func TestClient_BadLinesAreLoggedSparsely(t *testing.T) {
	var log lockedBuffer
	p := newPeer(t, rpc.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if _, err := io.WriteString(p.conn, strings.Repeat("junk\n", 2500)); err != nil {
		t.Fatal(err)
	}
	p.settle()
	if got := strings.Count(log.String(), "skipped a line"); got != 12 { // 1 to 10, 1000, 2000
		t.Errorf("%d log lines", got)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.bad) != 2500 || p.bad[2499].Count != 2500 {
		t.Errorf("%d bad lines reported", len(p.bad))
	}
}

func TestClient_EndReachesEveryWaiter(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(p *peer, cancel context.CancelCauseFunc)
		want rpc.EndReason
		text string
	}{
		{"output closed", func(p *peer, _ context.CancelCauseFunc) { _ = p.conn.Close() }, rpc.EndOutputClosed, "connection ended: output closed"},
		{"closed by us", func(p *peer, _ context.CancelCauseFunc) { _ = p.client.Close() }, rpc.EndClosed, "connection ended: closed by us"},
		{"context", func(_ *peer, cancel context.CancelCauseFunc) { cancel(errors.New("stop now")) }, rpc.EndClosed, "connection ended: closed by us: stop now"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(context.Background())
			defer cancel(nil)
			p := startPeer(t, ctx, rpc.Options{}, false)
			var calls []<-chan error
			for range 40 { // more than may be in flight
				calls = append(calls, p.call(context.Background()))
			}
			for range rpc.DefaultMaxInFlight {
				p.next()
			}
			if p.client.Err() != nil {
				t.Fatal("an end before the end")
			}
			tc.end(p, cancel)
			for _, call := range calls {
				err := <-call
				var end *rpc.ConnectionError
				if !errors.As(err, &end) || end.Reason != tc.want || rpc.FaultOf(err) != rpc.FaultConnection {
					t.Fatalf("a waiter got %v", err)
				}
			}
			if err := <-p.served; err == nil || err.Error() != tc.text {
				t.Errorf("Serve: %v, want %s", err, tc.text)
			}
			<-p.client.Done()
			if _, err := p.client.ModelList(context.Background(), rpc.ModelListParams{}); rpc.FaultOf(err) != rpc.FaultConnection {
				t.Errorf("a later call: %v", err)
			}
			if err := p.client.Serve(context.Background()); err == nil || strings.Contains(err.Error(), "connection ended") {
				t.Errorf("a second Serve: %v", err)
			}
		})
	}
}

func TestClient_CallsBeforeServe(t *testing.T) {
	in, out := io.Pipe()
	c := rpc.New(rpc.Options{In: out, Out: in})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.ModelList(ctx, rpc.ModelListParams{}); !errors.Is(err, context.Canceled) || rpc.FaultOf(err) != rpc.FaultOther {
		t.Errorf("cancelled before Serve: %v", err)
	}
	_ = c.Close()
	if _, err := c.Initialize(context.Background(), rpc.InitializeParams{}); rpc.FaultOf(err) != rpc.FaultConnection {
		t.Errorf("closed before Serve: %v", err)
	}
	if err := c.Serve(context.Background()); rpc.FaultOf(err) != rpc.FaultConnection {
		t.Errorf("Serve after Close: %v", err)
	}
	<-c.Done()
}

// pipes are a client over real pipes, as a child has them.
func pipes(t *testing.T, opts rpc.Options) (client *rpc.Client, input, output *os.File, served <-chan error) {
	t.Helper()
	childIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	opts.In, opts.Out = in, out
	client = rpc.New(opts)
	ended := make(chan error, 1)
	go func() { ended <- client.Serve(context.Background()) }() // ends in the cleanup
	t.Cleanup(func() {
		_ = client.Close()
		_ = childIn.Close()
		_ = childOut.Close()
		<-client.Done()
	})
	return client, childIn, childOut, ended
}

// A child that died has closed its input, but what it said last still lies in
// the pipe: often the turn/completed that decides whether a turn is run twice.
func TestClient_LastWordsAfterBrokenInput(t *testing.T) {
	release := make(chan struct{})
	var notes []string
	client, input, output, served := pipes(t, rpc.Options{OnNotification: func(n rpc.Notification) { <-release; notes = append(notes, n.Method) }})
	_ = input.Close()
	waiting := make(chan error, 1)
	go func() { // ends with the connection
		_, err := client.ModelList(context.Background(), rpc.ModelListParams{})
		waiting <- err
	}()
	<-client.DoorInputBroken()
	var failed *rpc.ConnectionError
	if _, err := client.ModelList(t.Context(), rpc.ModelListParams{}); !errors.As(err, &failed) || failed.Reason != rpc.EndWriteFailed || !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a call after the input broke: %v", err)
	}
	fmt.Fprintln(output, `{"method":"turn/completed","params":{}}`)
	fmt.Fprintln(output, `half a li`)
	fmt.Fprint(output, `{"method":"last"}`) // complete but for its newline
	_ = output.Close()
	close(release)
	end := <-served
	if want := "connection ended: output closed"; end == nil || end.Error() != want {
		t.Errorf("Serve: %v", end)
	}
	if err := <-waiting; rpc.FaultOf(err) != rpc.FaultConnection {
		t.Errorf("the call whose write failed: %v", err)
	}
	if strings.Join(notes, " ") != "turn/completed last" {
		t.Errorf("last words %v", notes)
	}
}

func TestClient_CutLine(t *testing.T) {
	var bad []rpc.BadLine
	_, _, output, served := pipes(t, rpc.Options{OnBadLine: func(b rpc.BadLine) { bad = append(bad, b) }})
	fmt.Fprint(output, `{"method":"turn/comp`)
	_ = output.Close()
	<-served
	if len(bad) != 1 || bad[0] != (rpc.BadLine{Kind: rpc.BadCut, Bytes: 20, First: "object", Count: 1}) {
		t.Errorf("bad lines %+v", bad)
	}
}

// What the server asked with its last breath is recorded all the same.
func TestClient_LastRequestIsRecorded(t *testing.T) {
	for range 200 {
		asked := 0
		in, other := io.Pipe()
		client := rpc.New(rpc.Options{In: other, Out: strings.NewReader(`{"id":0,"method":"item/tool/call"}` + "\n"), OnServerRequest: func(rpc.ServerRequest) { asked++ }})
		_ = client.Serve(context.Background())
		_ = in.Close()
		if asked != 1 {
			t.Fatalf("%d requests recorded", asked)
		}
	}
}

// lockedBuffer is a log that can be read while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
