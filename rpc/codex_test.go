package rpc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

// realCodex is a client on the real app-server, with a scripted model.
func realCodex(t *testing.T, opts rpc.Options) (client *rpc.Client, notes <-chan rpc.Notification, work string) {
	t.Helper()
	binary := os.Getenv("CODEX_BINARY")
	if binary == "" {
		t.Skip("CODEX_BINARY is not set: the real codex was not exercised")
	}
	srv, err := model.New(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "config.toml"), []byte(srv.ConfigTOML()+"\n[mcp_servers.alpha]\ncommand = \"true\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	in, ourIn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ourOut, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "app-server", "-c", "features.plugins=false", "-c", "features.apps=false",
		"-c", "features.shell_snapshot=false", "-c", "allow_login_shell=false")
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout = in, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = in.Close(), out.Close()
	seen := make(chan rpc.Notification, 10_000)
	opts.In, opts.Out = ourIn, ourOut
	opts.OnNotification = func(n rpc.Notification) { seen <- n }
	client = rpc.New(opts)
	served := make(chan error, 1)
	go func() { served <- client.Serve(context.Background()) }()
	t.Cleanup(func() {
		_ = ourIn.Close() // the app-server ends with its input
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the app-server ended with %v", err)
		}
		if err := <-served; err == nil || err.Error() != "connection ended: output closed" {
			t.Errorf("Serve: %v", err)
		}
		_ = srv.Close()
	})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	reply, err := client.Initialize(ctx, rpc.InitializeParams{ClientInfo: rpc.ClientInfo{Name: "rpc-test", Version: "0"}, Capabilities: &rpc.Capabilities{ExperimentalAPI: true}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(reply.Version(), ".") < 2 || reply.CodexHome != home {
		t.Errorf("initialize: %+v, version %q", reply, reply.Version())
	}
	return client, seen, home
}

func TestCodex_Calls(t *testing.T) {
	c, _, home := realCodex(t, rpc.Options{OnBadLine: func(b rpc.BadLine) { t.Errorf("bad line %+v", b) }})
	ctx := t.Context()
	account, err := c.AccountRead(ctx, rpc.AccountReadParams{})
	if err != nil || account.LoginMissing() {
		t.Errorf("account/read: %+v, %v", account, err)
	}
	started, err := c.ThreadStart(ctx, rpc.ThreadStartParams{
		Cwd: home, ApprovalPolicy: "never", Ephemeral: true,
		Config: map[string]any{"default_permissions": ":read-only"}, BaseInstructions: "b", DeveloperInstructions: "d",
	})
	if err != nil {
		t.Fatal(err)
	}
	if !started.Thread.Ephemeral || started.Thread.Path != nil || started.Cwd != home || string(started.ApprovalPolicy) != `"never"` ||
		started.Sandbox.Type != "readOnly" || started.Sandbox.NetworkAccess != false ||
		started.ActivePermissionProfile == nil || started.ActivePermissionProfile.ID != ":read-only" || started.Thread.Status.Type != rpc.ThreadIdle {
		t.Errorf("thread/start: %s", started.Raw)
	}
	loaded, err := c.ThreadLoadedList(ctx, rpc.ThreadLoadedListParams{})
	if err != nil || len(loaded.Data) != 1 || loaded.Data[0] != started.Thread.ID {
		t.Errorf("thread/loaded/list: %+v, %v", loaded, err)
	}
	read, err := c.ThreadRead(ctx, rpc.ThreadReadParams{ThreadID: started.Thread.ID})
	if err != nil || read.Thread.ID != started.Thread.ID {
		t.Errorf("thread/read: %+v, %v", read, err)
	}
	config, err := c.ConfigRead(ctx, rpc.ConfigReadParams{Cwd: home})
	if servers := config.MCPServers(); err != nil || len(servers) != 1 || servers[0] != "alpha" {
		t.Errorf("config/read: %v, %v", servers, err)
	}
	models, err := c.ModelList(ctx, rpc.ModelListParams{Limit: 2})
	if err != nil || len(models.Data) != 2 || models.Data[0].ID == "" || models.NextCursor == "" {
		t.Errorf("model/list: %+v, %v", models, err)
	}
	ran, err := c.CommandExec(ctx, rpc.CommandExecParams{Command: []string{"echo", "hi"}, PermissionProfile: ":read-only"})
	if err != nil || ran.Stdout != "hi\n" || ran.ExitCode != 0 {
		t.Errorf("command/exec: %+v, %v", ran, err)
	}
	if _, err := c.ThreadBackgroundTerminalsClean(ctx, rpc.ThreadBackgroundTerminalsCleanParams{ThreadID: started.Thread.ID}); err != nil {
		t.Error(err)
	}
	if r, err := c.ThreadUnsubscribe(ctx, rpc.ThreadUnsubscribeParams{ThreadID: started.Thread.ID}); err != nil || r.Status != "unsubscribed" {
		t.Errorf("thread/unsubscribe: %+v, %v", r, err)
	}
}

// TestCodex_Faults asks for each refusal that something is decided on.
func TestCodex_Faults(t *testing.T) {
	c, _, home := realCodex(t, rpc.Options{})
	ctx := t.Context()
	const nobody = "00000000-0000-7000-8000-000000000000"
	fresh, err := c.ThreadStart(ctx, rpc.ThreadStartParams{Cwd: home, ApprovalPolicy: "never", Sandbox: "read-only"})
	if err != nil {
		t.Fatal(err)
	}
	ephemeral, err := c.ThreadStart(ctx, rpc.ThreadStartParams{Cwd: home, ApprovalPolicy: "never", Sandbox: "read-only", Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	text := func(n int) []rpc.UserInput {
		return []rpc.UserInput{{Type: rpc.InputText, Text: strings.Repeat("y", n)}}
	}
	errOf := func(_ any, err error) error { return err }
	for _, tc := range []struct {
		want rpc.Fault
		err  error
	}{
		{rpc.FaultNoRollout, errOf(c.ThreadResume(ctx, rpc.ThreadResumeParams{ThreadID: nobody}))},
		{rpc.FaultNoRollout, errOf(c.ThreadResume(ctx, rpc.ThreadResumeParams{ThreadID: fresh.Thread.ID}))},
		{rpc.FaultInvalidThread, errOf(c.ThreadResume(ctx, rpc.ThreadResumeParams{ThreadID: "bogus"}))},
		{rpc.FaultThreadNotLoaded, errOf(c.ThreadRead(ctx, rpc.ThreadReadParams{ThreadID: nobody}))},
		{rpc.FaultThreadNotLoaded, errOf(c.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: nobody}))},
		{rpc.FaultNoTurns, errOf(c.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: fresh.Thread.ID}))},
		{rpc.FaultNoTurns, errOf(c.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: ephemeral.Thread.ID}))},
		{rpc.FaultThreadNotFound, errOf(c.TurnStart(ctx, rpc.TurnStartParams{ThreadID: nobody}))},
		{rpc.FaultNoActiveTurn, errOf(c.TurnInterrupt(ctx, rpc.TurnInterruptParams{ThreadID: fresh.Thread.ID, TurnID: nobody}))},
		{rpc.FaultInputTooLarge, errOf(c.TurnStart(ctx, rpc.TurnStartParams{ThreadID: fresh.Thread.ID, Input: text(1_048_577)}))},
		{rpc.FaultConfig, errOf(c.ThreadStart(ctx, rpc.ThreadStartParams{Cwd: home, Config: map[string]any{"default_permissions": "nope"}}))},
		{rpc.FaultConfig, errOf(c.CommandExec(ctx, rpc.CommandExecParams{Command: []string{"true"}, PermissionProfile: "nope"}))},
	} {
		if got := rpc.FaultOf(tc.err); got != tc.want {
			t.Errorf("%v: %q, want %q", tc.err, got, tc.want)
		}
	}
}

// TestCodex_OversizedTurn: lines over the limit still name their thread and turn.
func TestCodex_OversizedTurn(t *testing.T) {
	c, notes, home := realCodex(t, rpc.Options{MaxLine: 128 << 10})
	ctx := t.Context()
	thread, err := c.ThreadStart(ctx, rpc.ThreadStartParams{Cwd: home, ApprovalPolicy: "never", Sandbox: "read-only"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.TurnStart(ctx, rpc.TurnStartParams{ThreadID: thread.Thread.ID, ClientUserMessageID: "a/1", Input: []rpc.UserInput{{Type: rpc.InputText, Text: "[[big 1000000]]"}}})
	if err != nil {
		t.Fatal(err)
	}
	oversized := map[string]bool{}
	for deadline := time.After(30 * time.Second); !oversized[rpc.NoteTurnCompleted]; {
		select {
		case n := <-notes:
			if n.Method == rpc.NoteTurnCompleted && !n.Oversized {
				t.Fatalf("turn/completed of %d bytes was not oversized", len(n.Params))
			}
			if n.Oversized {
				oversized[n.Method] = true
				if n.ThreadID != thread.Thread.ID || n.TurnID != turn.Turn.ID {
					t.Errorf("oversized %s: thread %q, turn %q", n.Method, n.ThreadID, n.TurnID)
				}
			}
		case <-deadline:
			t.Fatalf("no turn/completed; oversized so far: %v", oversized)
		}
	}
	if !oversized[rpc.NoteItemCompleted] || !oversized[rpc.NoteAgentMessageDelta] {
		t.Errorf("oversized lines: %v", oversized)
	}
	if _, err := c.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: thread.Thread.ID, Limit: 1, ItemsView: "summary"}); rpc.FaultOf(err) != rpc.FaultReplyTooLarge {
		t.Errorf("thread/turns/list: %v", err)
	}
	// Without items the same turn can be asked about.
	list, err := c.ThreadTurnsList(ctx, rpc.ThreadTurnsListParams{ThreadID: thread.Thread.ID, Limit: 1, ItemsView: "notLoaded"})
	if err != nil || len(list.Data) != 1 || list.Data[0].ID != turn.Turn.ID || list.Data[0].Status != rpc.TurnCompleted {
		t.Errorf("thread/turns/list without items: %+v, %v", list, err)
	}
}

// TestCodex_ApprovalIsDeclined: asked for an approval, the client says no, and
// the turn goes on to its end.
func TestCodex_ApprovalIsDeclined(t *testing.T) {
	asked := make(chan rpc.ServerRequest, 10)
	c, notes, home := realCodex(t, rpc.Options{OnServerRequest: func(r rpc.ServerRequest) { asked <- r }})
	ctx := t.Context()
	thread, err := c.ThreadStart(ctx, rpc.ThreadStartParams{Cwd: home, ApprovalPolicy: "untrusted", Sandbox: "read-only"})
	if err != nil {
		t.Fatal(err)
	}
	turn, err := c.TurnStart(ctx, rpc.TurnStartParams{ThreadID: thread.Thread.ID, Input: []rpc.UserInput{{Type: rpc.InputText, Text: "[[sh touch made.txt]]"}}})
	if err != nil {
		t.Fatal(err)
	}
	declined := false
	for deadline := time.After(30 * time.Second); ; {
		select {
		case n := <-notes:
			if n.Method == rpc.NoteItemCompleted {
				item, err := rpc.DecodeItem(n)
				if err != nil {
					t.Error(err)
				}
				declined = declined || item.Item.Type == rpc.ItemCommandExecution && strings.Contains(string(item.Item.Raw), `"status":"declined"`)
			}
			if n.Method != rpc.NoteTurnCompleted {
				continue
			}
			done, err := rpc.DecodeTurn(n)
			if err != nil || done.Turn.Status != rpc.TurnCompleted || !declined {
				t.Errorf("the turn ended %+v, %v; declined %v", done, err, declined)
			}
			if r := <-asked; r != (rpc.ServerRequest{Method: rpc.AskCommandApproval, ThreadID: thread.Thread.ID, TurnID: turn.Turn.ID, Answer: rpc.AnswerDeclined}) {
				t.Errorf("recorded %+v", r)
			}
			if _, err := os.Stat(filepath.Join(home, "made.txt")); err == nil {
				t.Error("the command ran all the same")
			}
			return
		case <-deadline:
			t.Fatal("no turn/completed")
		}
	}
}
