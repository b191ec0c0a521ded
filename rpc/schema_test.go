package rpc_test

import (
	"encoding/json"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/rpc/schematest"
)

func ptr[T any](v T) *T { return &v }

// TestSchema holds our shapes against the schema of the installed codex: what we
// send, what the scripted server sends with the same structs, and our answers to
// server requests.
func TestSchema(t *testing.T) {
	schemas := schematest.Load(t)

	t.Run("Params", func(t *testing.T) {
		for _, tc := range []struct {
			name string
			full any
			zero any
		}{
			{"InitializeParams", rpc.InitializeParams{ClientInfo: rpc.ClientInfo{Name: "n", Title: "t", Version: "v"}, Capabilities: &rpc.Capabilities{ExperimentalAPI: true, OptOutNotificationMethods: []string{"x"}}}, rpc.InitializeParams{}},
			{"v2/GetAccountParams", rpc.AccountReadParams{RefreshToken: true}, rpc.AccountReadParams{}},
			{"v2/ThreadStartParams", rpc.ThreadStartParams{Cwd: "/w", ApprovalPolicy: "never", Sandbox: "read-only", Model: "m", BaseInstructions: "b", DeveloperInstructions: "d", Ephemeral: true, Config: map[string]any{"default_permissions": "x"}}, rpc.ThreadStartParams{}},
			{"v2/ThreadResumeParams", rpc.ThreadResumeParams{ThreadID: "t", Cwd: "/w", ApprovalPolicy: "never", Sandbox: "workspace-write", Model: "m", BaseInstructions: "b", DeveloperInstructions: "d", Config: map[string]any{"a": 1}, ExcludeTurns: true}, rpc.ThreadResumeParams{}},
			{"v2/ThreadReadParams", rpc.ThreadReadParams{ThreadID: "t", IncludeTurns: true}, rpc.ThreadReadParams{}},
			{"v2/ThreadTurnsListParams", rpc.ThreadTurnsListParams{ThreadID: "t", Cursor: "c", Limit: 2, ItemsView: "summary", SortDirection: "desc"}, rpc.ThreadTurnsListParams{}},
			{"v2/ThreadUnsubscribeParams", rpc.ThreadUnsubscribeParams{ThreadID: "t"}, rpc.ThreadUnsubscribeParams{}},
			{"v2/ThreadLoadedListParams", rpc.ThreadLoadedListParams{Cursor: "c", Limit: 1}, rpc.ThreadLoadedListParams{}},
			{"v2/ThreadCompactStartParams", rpc.ThreadCompactStartParams{ThreadID: "t"}, rpc.ThreadCompactStartParams{}},
			{"v2/ThreadBackgroundTerminalsCleanParams", rpc.ThreadBackgroundTerminalsCleanParams{ThreadID: "t"}, rpc.ThreadBackgroundTerminalsCleanParams{}},
			{"v2/TurnStartParams", rpc.TurnStartParams{ThreadID: "t", ClientUserMessageID: "a/1", Model: "m", Effort: "low", Input: []rpc.UserInput{{Type: rpc.InputText, Text: "x"}, {Type: rpc.InputText}, {Type: rpc.InputLocalImage, Path: "/p"}}}, rpc.TurnStartParams{}},
			{"v2/TurnInterruptParams", rpc.TurnInterruptParams{ThreadID: "t", TurnID: "u"}, rpc.TurnInterruptParams{}},
			{"v2/ModelListParams", rpc.ModelListParams{Cursor: "c", Limit: 1, IncludeHidden: true}, rpc.ModelListParams{}},
			{"v2/ConfigReadParams", rpc.ConfigReadParams{Cwd: "/w", IncludeLayers: true}, rpc.ConfigReadParams{}},
			{"v2/CommandExecParams", rpc.CommandExecParams{Command: []string{"cat"}, Cwd: "/w", Env: map[string]*string{"A": ptr("b"), "C": nil}, PermissionProfile: "p", TimeoutMs: 5, OutputBytesCap: 9}, rpc.CommandExecParams{Command: []string{"true"}}},
		} {
			t.Run(tc.name, func(t *testing.T) {
				schemas.Check(t, tc.name, tc.full)
				schemas.Check(t, tc.name, tc.zero)
				if unknown := schemas.Unknown(t, tc.name, tc.full); len(unknown) > 0 {
					t.Errorf("codex does not know the fields %v", unknown)
				}
			})
		}
	})

	thread := rpc.Thread{ID: "t", Status: rpc.ThreadStatus{Type: rpc.ThreadActive}, Cwd: "/w", CLIVersion: "0.0.0", ModelProvider: "m"}
	failed := rpc.Turn{ID: "u", Status: rpc.TurnFailed, StartedAt: ptr(int64(1)), Error: &rpc.TurnError{
		Message: "m", CodexErrorInfo: rpc.ErrorInfo{Kind: rpc.ErrResponseTooManyFailedAttempts, HTTPStatus: 429},
	}}
	whole := rpc.Turn{ID: "u", Status: rpc.TurnCompleted, ItemsView: "summary", Items: []rpc.Item{
		{Type: rpc.ItemUserMessage, ID: "1", Text: "x", ClientID: "a/1"},
		{Type: rpc.ItemUserMessage, ID: "1"},
		{Type: rpc.ItemAgentMessage, ID: "2", Text: "y", Phase: rpc.PhaseFinalAnswer},
		{Type: rpc.ItemAgentMessage, ID: "3"},
	}}
	reply := rpc.ThreadReply{
		Thread: thread, Model: "m", ModelProvider: "p", Cwd: "/w", ApprovalPolicy: json.RawMessage(`"never"`), ApprovalsReviewer: "user",
		Sandbox: rpc.SandboxInfo{Type: "readOnly", NetworkAccess: false}, ActivePermissionProfile: &rpc.ProfileRef{ID: "p"}, InstructionSources: []string{},
	}

	t.Run("Replies", func(t *testing.T) {
		schemas.Check(t, "InitializeResponse", rpc.InitializeReply{UserAgent: "a/1", CodexHome: "/h", PlatformFamily: "unix", PlatformOS: "linux"})
		schemas.Check(t, "v2/GetAccountResponse", rpc.AccountReadReply{Account: &rpc.Account{Type: "apiKey"}})
		schemas.Check(t, "v2/ThreadStartResponse", reply)
		schemas.Check(t, "v2/ThreadResumeResponse", reply)
		schemas.Check(t, "v2/ThreadReadResponse", rpc.ThreadReadReply{Thread: thread})
		schemas.Check(t, "v2/ThreadTurnsListResponse", rpc.ThreadTurnsListReply{Data: []rpc.Turn{failed, whole}})
		schemas.Check(t, "v2/ThreadUnsubscribeResponse", rpc.ThreadUnsubscribeReply{Status: "unsubscribed"})
		schemas.Check(t, "v2/ThreadLoadedListResponse", rpc.ThreadLoadedListReply{Data: []string{"t"}})
		schemas.Check(t, "v2/TurnStartResponse", rpc.TurnStartReply{Turn: rpc.Turn{ID: "u", Status: rpc.TurnInProgress}})
		schemas.Check(t, "v2/TurnInterruptResponse", rpc.Empty{})
		schemas.Check(t, "v2/CommandExecResponse", rpc.CommandExecReply{ExitCode: 1})
		schemas.Check(t, "v2/ModelListResponse", rpc.ModelListReply{Data: []rpc.Model{{ID: "m", Model: "m", DefaultReasoningEffort: "low", SupportedReasoningEfforts: []rpc.ReasoningEffort{{ReasoningEffort: "low"}}}}})
	})

	t.Run("Notifications", func(t *testing.T) {
		for method, params := range map[string]any{
			rpc.NoteTurnStarted:       rpc.TurnEvent{ThreadID: "t", Turn: failed},
			rpc.NoteTurnCompleted:     rpc.TurnEvent{ThreadID: "t", Turn: whole},
			rpc.NoteItemStarted:       withField(t, rpc.ItemEvent{ThreadID: "t", TurnID: "u", Item: whole.Items[0]}, "startedAtMs", 1),
			rpc.NoteItemCompleted:     withField(t, rpc.ItemEvent{ThreadID: "t", TurnID: "u", Item: whole.Items[2]}, "completedAtMs", 1),
			rpc.NoteAgentMessageDelta: rpc.DeltaEvent{ThreadID: "t", TurnID: "u", ItemID: "i", Delta: "d"},
			rpc.NoteError:             rpc.ErrorEvent{ThreadID: "t", TurnID: "u", Error: *failed.Error, WillRetry: true},
			rpc.NoteTokenUsage:        rpc.TokenUsageEvent{ThreadID: "t", TurnID: "u"},
			rpc.NoteRateLimits:        rpc.RateLimitsEvent{RateLimits: rpc.RateLimits{LimitID: "codex", Primary: &rpc.RateLimitWindow{UsedPercent: 100, ResetsAt: ptr(int64(9))}}},
			rpc.NoteThreadStarted:     rpc.ThreadReadReply{Thread: thread},
			rpc.NoteThreadStatus:      rpc.ThreadStatusEvent{ThreadID: "t", Status: rpc.ThreadStatus{Type: rpc.ThreadIdle}},
			rpc.NoteThreadClosed:      rpc.ThreadClosedEvent{ThreadID: "t"},
			rpc.NoteConfigWarning:     rpc.ConfigWarning{Summary: "s", Path: "/p"},
		} {
			schemas.Check(t, "ServerNotification", map[string]any{"method": method, "params": params})
		}
	})

	t.Run("Answers", func(t *testing.T) {
		for method, name := range map[string]string{
			rpc.AskCommandApproval:     "CommandExecutionRequestApprovalResponse",
			rpc.AskFileChangeApproval:  "FileChangeRequestApprovalResponse",
			rpc.AskPermissionsApproval: "PermissionsRequestApprovalResponse",
			rpc.AskUserInput:           "ToolRequestUserInputResponse",
			rpc.AskElicitation:         "McpServerElicitationRequestResponse",
			rpc.AskToolCall:            "DynamicToolCallResponse",
			rpc.AskExecCommandOld:      "ExecCommandApprovalResponse",
			rpc.AskApplyPatchOld:       "ApplyPatchApprovalResponse",
		} {
			result, ok := rpc.Decline(method)
			if !ok {
				t.Errorf("%s has no way to say no", method)
				continue
			}
			schemas.Check(t, name, result)
		}
		// The pinned codex asks nothing that nobody here has thought about. (What a
		// newer one may ask is answered with an error.)
		thought := map[string]bool{rpc.AskAuthTokens: true, rpc.AskAttestation: true}
		for _, method := range schemas.Methods(t, "ServerRequest") {
			if _, ok := rpc.Decline(method); !ok && !thought[method] {
				t.Errorf("codex may ask %s, which is in no table", method)
			}
		}
	})

	t.Run("KnownNotifications", func(t *testing.T) {
		for _, method := range schemas.Methods(t, "ServerNotification") {
			if !rpc.KnownNotification(method) {
				t.Errorf("codex sends %s, which is not in the list", method)
			}
		}
		if rpc.KnownNotification("no/such") {
			t.Error("any name is known")
		}
	})

	// A validator that accepts anything would make all of the above worthless.
	t.Run("Control", func(t *testing.T) {
		if schemas.Validate("v2/TurnInterruptParams", map[string]any{"threadId": "t"}) == nil {
			t.Error("a missing turnId passed")
		}
		if schemas.Validate("ServerNotification", map[string]any{"method": rpc.NoteThreadClosed, "params": map[string]any{"threadId": 1}}) == nil {
			t.Error("a thread id that is a number passed")
		}
		if got := schemas.Unknown(t, "v2/TurnInterruptParams", map[string]any{"threadID": "t"}); len(got) != 1 {
			t.Errorf("unknown fields: %v", got)
		}
	})
}

func withField(t *testing.T, v any, field string, value any) map[string]any {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatal(err)
	}
	object[field] = value
	return object
}
