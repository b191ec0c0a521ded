package rpc

import "encoding/json"

// TurnStartParams are the parameters of turn/start. Model and Effort stay in
// force for later turns of the thread.
type TurnStartParams struct {
	ThreadID string      `json:"threadId"`
	Input    []UserInput `json:"input"`
	// ClientUserMessageID comes back as clientId on the user message, in events
	// and in stored history. Codex does not check that it is unique.
	ClientUserMessageID string `json:"clientUserMessageId,omitempty"`
	Model               string `json:"model,omitempty"`
	Effort              string `json:"effort,omitempty"`
}

// MarshalJSON writes an absent input as an empty list: the field is required.
func (p TurnStartParams) MarshalJSON() ([]byte, error) {
	type plain TurnStartParams
	if p.Input == nil {
		p.Input = []UserInput{}
	}
	return json.Marshal(plain(p))
}

// TurnStartReply answers turn/start. Events of the turn may arrive earlier.
type TurnStartReply struct {
	Turn Turn `json:"turn"`
}

// TurnInterruptParams are the parameters of turn/interrupt. An empty TurnID
// means whatever turn is running (codex app-server 0.135.0 to 0.171.0, measured).
type TurnInterruptParams struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
}

// Types of [UserInput].
const (
	InputText       = "text"
	InputLocalImage = "localImage"
)

// UserInput is one part of a prompt.
type UserInput struct {
	Type string `json:"type"` // InputText or InputLocalImage
	Text string `json:"text,omitempty"`
	Path string `json:"path,omitempty"`
}

// MarshalJSON writes the fields of the type, empty ones too: they are required.
func (u UserInput) MarshalJSON() ([]byte, error) {
	switch u.Type {
	case InputText:
		return json.Marshal(map[string]any{"type": u.Type, "text": u.Text, "text_elements": []any{}})
	case InputLocalImage:
		return json.Marshal(map[string]any{"type": u.Type, "path": u.Path})
	default:
		type plain UserInput
		return json.Marshal(plain(u))
	}
}

// Statuses of a [Turn]; the set is open.
const (
	TurnInProgress  = "inProgress"
	TurnCompleted   = "completed"
	TurnInterrupted = "interrupted"
	TurnFailed      = "failed"
)

// Turn is one prompt and what followed.
type Turn struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	// Error is set on failed turns.
	Error *TurnError `json:"error"`
	// Items are whole or partial, as ItemsView says: notLoaded, summary or full.
	Items     []Item `json:"items"`
	ItemsView string `json:"itemsView,omitempty"`
	// StartedAt and CompletedAt are unix seconds, DurationMs milliseconds; nil
	// while unknown. A turn cut by the end of its process never gets the latter two.
	StartedAt   *int64 `json:"startedAt"`
	CompletedAt *int64 `json:"completedAt"`
	DurationMs  *int64 `json:"durationMs"`
}

// MarshalJSON writes absent items as an empty list: the field is required.
func (t Turn) MarshalJSON() ([]byte, error) {
	type plain Turn
	if t.Items == nil {
		t.Items = []Item{}
	}
	return json.Marshal(plain(t))
}

// TurnError says why a turn failed.
type TurnError struct {
	Message           string    `json:"message"`
	CodexErrorInfo    ErrorInfo `json:"codexErrorInfo"`
	AdditionalDetails string    `json:"additionalDetails,omitempty"`
}

// Kinds of [ErrorInfo] that something is decided on; the set is open.
const (
	ErrContextWindowExceeded         = "contextWindowExceeded"
	ErrSessionBudgetExceeded         = "sessionBudgetExceeded"
	ErrUsageLimitExceeded            = "usageLimitExceeded"
	ErrRateLimitExceeded             = "rateLimitExceeded"
	ErrServerOverloaded              = "serverOverloaded"
	ErrInternalServerError           = "internalServerError"
	ErrUnauthorized                  = "unauthorized"
	ErrBadRequest                    = "badRequest"
	ErrSandbox                       = "sandboxError"
	ErrOther                         = "other"
	ErrHTTPConnectionFailed          = "httpConnectionFailed"
	ErrResponseStreamConnection      = "responseStreamConnectionFailed"
	ErrResponseStreamDisconnected    = "responseStreamDisconnected"
	ErrResponseTooManyFailedAttempts = "responseTooManyFailedAttempts"
)

// ErrorInfo is Codex's classification of a failure: a word, or an object whose
// one key is the word and which may carry the upstream's HTTP status.
type ErrorInfo struct {
	Kind       string
	HTTPStatus int
}

// UnmarshalJSON takes both shapes, and anything else as no information.
func (e *ErrorInfo) UnmarshalJSON(data []byte) error {
	*e = ErrorInfo{}
	if json.Unmarshal(data, &e.Kind) == nil {
		return nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil {
		return nil
	}
	for kind, body := range object {
		if e.Kind != "" && kind > e.Kind {
			continue // one key is what Codex sends; with more, be deterministic
		}
		var detail struct {
			Status int `json:"httpStatusCode"`
		}
		_ = decode(body, &detail)
		e.Kind, e.HTTPStatus = kind, detail.Status
	}
	return nil
}

// MarshalJSON writes the shape that Codex would.
func (e ErrorInfo) MarshalJSON() ([]byte, error) {
	switch e.Kind {
	case "":
		return []byte("null"), nil
	case ErrHTTPConnectionFailed, ErrResponseStreamConnection, ErrResponseStreamDisconnected, ErrResponseTooManyFailedAttempts:
		var status any
		if e.HTTPStatus != 0 {
			status = e.HTTPStatus
		}
		return json.Marshal(map[string]any{e.Kind: map[string]any{"httpStatusCode": status}})
	default:
		return json.Marshal(e.Kind)
	}
}
