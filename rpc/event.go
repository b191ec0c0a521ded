package rpc

import (
	"encoding/json"
	"fmt"
)

// Notifications that are decoded here. The set that Codex sends is open and
// about 80 strong.
const (
	NoteTurnStarted       = "turn/started"
	NoteTurnCompleted     = "turn/completed"
	NoteItemStarted       = "item/started"
	NoteItemCompleted     = "item/completed"
	NoteAgentMessageDelta = "item/agentMessage/delta"
	NoteError             = "error"
	NoteTokenUsage        = "thread/tokenUsage/updated"
	NoteRateLimits        = "account/rateLimits/updated"
	NoteThreadStarted     = "thread/started"
	NoteThreadStatus      = "thread/status/changed"
	NoteThreadClosed      = "thread/closed"
	NoteConfigWarning     = "configWarning"
	NoteAccountUpdated    = "account/updated"
	NoteInitialized       = "initialized" // the one that we send
)

// Notification is what the server told without being asked.
type Notification struct {
	Method string
	// ThreadID and TurnID are what the event belongs to; "" when it names none.
	// Events of sub-agent threads arrive on the same connection.
	ThreadID, TurnID string
	Params           json.RawMessage
	// Oversized: the line was over the read limit; Params is nil, the ids are
	// what could be found at its two ends.
	Oversized bool
}

// TurnEvent is turn/started or turn/completed.
type TurnEvent struct {
	ThreadID string `json:"threadId"`
	Turn     Turn   `json:"turn"`
}

// DecodeTurn decodes turn/started and turn/completed.
func DecodeTurn(n Notification) (TurnEvent, error) {
	var e TurnEvent
	err := decodeNote(n, &e)
	if err == nil && e.Turn.ID == "" {
		err = fmt.Errorf("decode %s: no turn id", n.Method)
	}
	return e, err
}

// ItemEvent is item/started or item/completed.
type ItemEvent struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	Item     Item   `json:"item"`
}

// DecodeItem decodes item/started and item/completed.
func DecodeItem(n Notification) (ItemEvent, error) {
	var e ItemEvent
	return e, decodeNote(n, &e)
}

// DeltaEvent is item/agentMessage/delta. The text of item/completed is the
// authority; deltas are for display and as a sign of life.
type DeltaEvent struct {
	ThreadID string `json:"threadId"`
	TurnID   string `json:"turnId"`
	ItemID   string `json:"itemId"`
	Delta    string `json:"delta"`
}

// DecodeDelta decodes item/agentMessage/delta.
func DecodeDelta(n Notification) (DeltaEvent, error) {
	var e DeltaEvent
	return e, decodeNote(n, &e)
}

// ErrorEvent is error. With WillRetry it is progress and no failure; without,
// turn/completed follows with the same error.
type ErrorEvent struct {
	ThreadID  string    `json:"threadId"`
	TurnID    string    `json:"turnId"`
	Error     TurnError `json:"error"`
	WillRetry bool      `json:"willRetry"`
}

// DecodeError decodes error.
func DecodeError(n Notification) (ErrorEvent, error) {
	var e ErrorEvent
	return e, decodeNote(n, &e)
}

// TokenUsageEvent is thread/tokenUsage/updated. It comes after every model call;
// Total is the thread's, so the last one counts and nothing is to be added up.
type TokenUsageEvent struct {
	ThreadID   string     `json:"threadId"`
	TurnID     string     `json:"turnId"`
	TokenUsage TokenUsage `json:"tokenUsage"`
}

// TokenUsage of a thread and of its last model call.
type TokenUsage struct {
	Total              Tokens `json:"total"`
	Last               Tokens `json:"last"`
	ModelContextWindow *int64 `json:"modelContextWindow"`
}

// Tokens by kind.
type Tokens struct {
	Total           int64 `json:"totalTokens"`
	Input           int64 `json:"inputTokens"`
	CachedInput     int64 `json:"cachedInputTokens"`
	CacheWriteInput int64 `json:"cacheWriteInputTokens"`
	Output          int64 `json:"outputTokens"`
	ReasoningOutput int64 `json:"reasoningOutputTokens"`
}

// DecodeTokenUsage decodes thread/tokenUsage/updated.
func DecodeTokenUsage(n Notification) (TokenUsageEvent, error) {
	var e TokenUsageEvent
	return e, decodeNote(n, &e)
}

// RateLimitsEvent is account/rateLimits/updated. It is sparse: nil means "not in
// this update".
type RateLimitsEvent struct {
	RateLimits RateLimits `json:"rateLimits"`
}

// RateLimits of the account.
type RateLimits struct {
	LimitID              string           `json:"limitId,omitempty"`
	PlanType             string           `json:"planType,omitempty"`
	Primary              *RateLimitWindow `json:"primary"`
	Secondary            *RateLimitWindow `json:"secondary"`
	RateLimitReachedType string           `json:"rateLimitReachedType,omitempty"`
}

// RateLimitWindow is one window of the account's limits.
type RateLimitWindow struct {
	UsedPercent int `json:"usedPercent"`
	// WindowDurationMins and ResetsAt (unix seconds) are nil when unknown.
	WindowDurationMins *int64 `json:"windowDurationMins"`
	ResetsAt           *int64 `json:"resetsAt"`
}

// DecodeRateLimits decodes account/rateLimits/updated.
func DecodeRateLimits(n Notification) (RateLimitsEvent, error) {
	var e RateLimitsEvent
	return e, decodeNote(n, &e)
}

// ThreadStatusEvent is thread/status/changed.
type ThreadStatusEvent struct {
	ThreadID string       `json:"threadId"`
	Status   ThreadStatus `json:"status"`
}

// DecodeThreadStatus decodes thread/status/changed.
func DecodeThreadStatus(n Notification) (ThreadStatusEvent, error) {
	var e ThreadStatusEvent
	return e, decodeNote(n, &e)
}

// ThreadClosedEvent is thread/closed: the thread left the server's memory.
type ThreadClosedEvent struct {
	ThreadID string `json:"threadId"`
}

// DecodeThreadClosed decodes thread/closed.
func DecodeThreadClosed(n Notification) (ThreadClosedEvent, error) {
	var e ThreadClosedEvent
	return e, decodeNote(n, &e)
}

// ConfigWarning is configWarning. A configuration that Codex could not load
// comes as one with a Path; every thread/start then fails with FaultConfig.
type ConfigWarning struct {
	Summary string `json:"summary"`
	Details string `json:"details,omitempty"`
	Path    string `json:"path,omitempty"`
}

// DecodeConfigWarning decodes configWarning.
func DecodeConfigWarning(n Notification) (ConfigWarning, error) {
	var e ConfigWarning
	return e, decodeNote(n, &e)
}

func decodeNote(n Notification, v any) error {
	if n.Oversized {
		return fmt.Errorf("decode %s: the line was over the read limit", n.Method)
	}
	if len(n.Params) == 0 {
		return fmt.Errorf("decode %s: no params", n.Method)
	}
	if err := decode(n.Params, v); err != nil {
		return fmt.Errorf("decode %s: %w", n.Method, err)
	}
	return nil
}
