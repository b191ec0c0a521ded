package rpc

import "encoding/json"

// ThreadStartParams are the parameters of thread/start. Empty fields are left
// out, so Codex uses its own configuration for them.
type ThreadStartParams struct {
	Cwd                   string         `json:"cwd,omitempty"`
	ApprovalPolicy        string         `json:"approvalPolicy,omitempty"`
	Sandbox               string         `json:"sandbox,omitempty"`
	Model                 string         `json:"model,omitempty"`
	BaseInstructions      string         `json:"baseInstructions,omitempty"`
	DeveloperInstructions string         `json:"developerInstructions,omitempty"`
	Ephemeral             bool           `json:"ephemeral,omitempty"`
	Config                map[string]any `json:"config,omitempty"`
}

// ThreadResumeParams are the parameters of thread/resume. On a thread that is
// already loaded in the app-server everything but the id is silently ignored.
type ThreadResumeParams struct {
	ThreadID              string         `json:"threadId"`
	Cwd                   string         `json:"cwd,omitempty"`
	ApprovalPolicy        string         `json:"approvalPolicy,omitempty"`
	Sandbox               string         `json:"sandbox,omitempty"`
	Model                 string         `json:"model,omitempty"`
	BaseInstructions      string         `json:"baseInstructions,omitempty"`
	DeveloperInstructions string         `json:"developerInstructions,omitempty"`
	Config                map[string]any `json:"config,omitempty"`
	ExcludeTurns          bool           `json:"excludeTurns,omitempty"`
}

// ThreadReply answers thread/start and thread/resume: the thread, and the policy
// that is really in force on it.
type ThreadReply struct {
	Thread                  Thread          `json:"thread"`
	Model                   string          `json:"model"`
	ModelProvider           string          `json:"modelProvider"`
	Cwd                     string          `json:"cwd"`
	ApprovalPolicy          json.RawMessage `json:"approvalPolicy"`
	ApprovalsReviewer       string          `json:"approvalsReviewer"`
	Sandbox                 SandboxInfo     `json:"sandbox"`
	ActivePermissionProfile *ProfileRef     `json:"activePermissionProfile"`
	InstructionSources      []string        `json:"instructionSources"`
	// Raw is the whole reply as it came.
	Raw json.RawMessage `json:"-"`
}

// SandboxInfo is the effective sandbox of a thread.
type SandboxInfo struct {
	// Type is readOnly, workspaceWrite, dangerFullAccess or externalSandbox.
	Type string `json:"type"`
	// NetworkAccess is a bool, or a word for externalSandbox; nil when absent.
	NetworkAccess any      `json:"networkAccess,omitempty"`
	WritableRoots []string `json:"writableRoots,omitempty"`
}

// ProfileRef names the permission profile in force.
type ProfileRef struct {
	ID      string `json:"id"`
	Extends string `json:"extends,omitempty"`
}

// Thread is a Codex conversation.
type Thread struct {
	ID        string       `json:"id"`
	SessionID string       `json:"sessionId"`
	Ephemeral bool         `json:"ephemeral"`
	Status    ThreadStatus `json:"status"`
	// Path is the rollout file; nil for an ephemeral thread.
	Path          *string `json:"path"`
	Preview       string  `json:"preview"`
	Cwd           string  `json:"cwd"`
	CLIVersion    string  `json:"cliVersion"`
	ModelProvider string  `json:"modelProvider"`
	ProjectID     *string `json:"projectId"`
	// Source is a word or an object.
	Source any `json:"source"`
	// CreatedAt and UpdatedAt are unix seconds.
	CreatedAt int64  `json:"createdAt"`
	UpdatedAt int64  `json:"updatedAt"`
	Turns     []Turn `json:"turns"`
}

// MarshalJSON fills in what the schema requires and nothing here reads.
func (t Thread) MarshalJSON() ([]byte, error) {
	type plain Thread
	if t.Turns == nil {
		t.Turns = []Turn{}
	}
	if t.SessionID == "" {
		t.SessionID = t.ID
	}
	if t.Source == nil {
		t.Source = "vscode" // what threads made over stdio get
	}
	return json.Marshal(plain(t))
}

// ThreadStatus is what a thread is doing.
type ThreadStatus struct {
	// Type is notLoaded, idle, active or systemError; the set is open. A thread
	// in systemError still takes the next turn.
	Type string `json:"type"`
	// ActiveFlags say what an active thread waits for.
	ActiveFlags []string `json:"activeFlags,omitempty"`
}

// Types of [ThreadStatus].
const (
	ThreadNotLoaded   = "notLoaded"
	ThreadIdle        = "idle"
	ThreadActive      = "active"
	ThreadSystemError = "systemError"
)

// MarshalJSON writes activeFlags for an active thread even when there are none:
// the schema requires it there.
func (s ThreadStatus) MarshalJSON() ([]byte, error) {
	if s.Type == ThreadActive {
		flags := s.ActiveFlags
		if flags == nil {
			flags = []string{}
		}
		return json.Marshal(map[string]any{"type": s.Type, "activeFlags": flags})
	}
	return json.Marshal(map[string]any{"type": s.Type})
}

// ThreadReadParams are the parameters of thread/read.
type ThreadReadParams struct {
	ThreadID     string `json:"threadId"`
	IncludeTurns bool   `json:"includeTurns,omitempty"`
}

// ThreadReadReply answers thread/read.
type ThreadReadReply struct {
	Thread Thread `json:"thread"`
}

// ThreadTurnsListParams are the parameters of thread/turns/list.
type ThreadTurnsListParams struct {
	ThreadID string `json:"threadId"`
	Cursor   string `json:"cursor,omitempty"`
	Limit    int    `json:"limit,omitempty"`
	// ItemsView is notLoaded, summary (user message and last answer) or full.
	ItemsView string `json:"itemsView,omitempty"`
	// SortDirection is asc or desc; the server's default is newest first.
	SortDirection string `json:"sortDirection,omitempty"`
}

// ThreadTurnsListReply answers thread/turns/list, newest turn first.
type ThreadTurnsListReply struct {
	Data            []Turn `json:"data"`
	NextCursor      string `json:"nextCursor,omitempty"`
	BackwardsCursor string `json:"backwardsCursor,omitempty"`
}

// ThreadUnsubscribeParams are the parameters of thread/unsubscribe.
type ThreadUnsubscribeParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadUnsubscribeReply answers thread/unsubscribe.
type ThreadUnsubscribeReply struct {
	// Status is unsubscribed, notSubscribed or notLoaded.
	Status string `json:"status"`
}

// ThreadLoadedListParams are the parameters of thread/loaded/list.
type ThreadLoadedListParams struct {
	Cursor string `json:"cursor,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// ThreadLoadedListReply answers thread/loaded/list: ids of threads in memory.
type ThreadLoadedListReply struct {
	Data       []string `json:"data"`
	NextCursor string   `json:"nextCursor,omitempty"`
}

// ThreadCompactStartParams are the parameters of thread/compact/start. The
// compaction itself is a turn that follows.
type ThreadCompactStartParams struct {
	ThreadID string `json:"threadId"`
}

// ThreadBackgroundTerminalsCleanParams are the parameters of
// thread/backgroundTerminals/clean, which needs experimentalApi.
type ThreadBackgroundTerminalsCleanParams struct {
	ThreadID string `json:"threadId"`
}

// Empty is a reply without fields.
type Empty struct{}
