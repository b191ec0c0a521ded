package supervisor

import (
	"sync/atomic"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// Status is what `codex-supervisor status` shows: a snapshot, never a guess.
type Status struct {
	Version  string          `json:"version"`
	PID      int             `json:"pid"`
	Started  time.Time       `json:"started"`
	Draining bool            `json:"draining"`
	WorkDirs []WorkDirStatus `json:"workdirs"`
}

// WorkDirStatus is one work dir.
type WorkDirStatus struct {
	Name     string         `json:"name"`
	Path     string         `json:"path"`
	State    string         `json:"state_dir"`
	Envelope task.Policy    `json:"envelope"`
	Sandbox  string         `json:"sandbox"`
	Paused   bool           `json:"paused"`
	Problem  string         `json:"problem,omitempty"` // what keeps the work dir from working, in words
	Child    ChildStatus    `json:"child"`
	Guests   GuestStatus    `json:"guests"`
	Queue    []QueuedTask   `json:"queue"` // at most QueueShown, in no promised order
	Queued   int            `json:"queued"`
	Running  []RunningTask  `json:"running"`
	Waiting  int            `json:"waiting"` // cut off, to be settled when the child is back
	Recent   []store.Row    `json:"recent,omitempty"`
	Threads  []ThreadStatus `json:"threads,omitempty"`

	live []*atomic.Pointer[RunningTask] // what Running is read from
}

// RecentShown is how many of the latest tasks a status holds.
const RecentShown = 5

// QueueShown bounds the queue in a snapshot.
const QueueShown = 50

// ChildStatus is the child of a work dir.
type ChildStatus struct {
	State             ChildState    `json:"state"`
	Reason            reason.Reason `json:"reason,omitempty"`
	Detail            string        `json:"detail,omitempty"`
	Since             time.Time     `json:"since"`
	Generation        uint64        `json:"generation"`
	PID               int           `json:"pid,omitempty"`
	Version           string        `json:"version,omitempty"`
	StartedAt         time.Time     `json:"started_at,omitzero"`
	Restarts          int           `json:"restarts"`
	LastRestart       reason.Reason `json:"last_restart,omitempty"`
	LastExit          string        `json:"last_exit,omitempty"`
	LastFailure       reason.Reason `json:"last_failure,omitempty"`
	LastFailureDetail string        `json:"last_failure_detail,omitempty"`
	NextStart         time.Time     `json:"next_start,omitzero"`
	HeldUntil         time.Time     `json:"held_until,omitzero"`
	CrashLooping      bool          `json:"crash_looping"`
}

// GuestStatus says whether non-owner work runs, and why not.
type GuestStatus struct {
	Confined bool          `json:"confined"`
	Reason   reason.Reason `json:"reason,omitempty"`
	Detail   string        `json:"detail,omitempty"`
	Lost     int           `json:"lost_slots"`
}

// QueuedTask is a task that waits.
type QueuedTask struct {
	ID       string    `json:"id"`
	Tier     task.Tier `json:"tier"`
	Channel  string    `json:"channel_key"`
	Priority string    `json:"priority"`
	Since    time.Time `json:"since"`
}

// RunningTask is a task with a turn, or on its way to one.
type RunningTask struct {
	ID       string        `json:"id"`
	Tier     task.Tier     `json:"tier"`
	Channel  string        `json:"channel_key"`
	Attempt  int           `json:"attempt"`
	ThreadID string        `json:"thread_id,omitempty"`
	TurnID   string        `json:"turn_id,omitempty"`
	Phase    string        `json:"phase"`
	Started  time.Time     `json:"started"`
	Cap      time.Duration `json:"cap_ns"`
	TextLen  int           `json:"text_len"`
}

// ThreadStatus is a channel's durable thread.
type ThreadStatus struct {
	Channel   string            `json:"channel"`
	Key       string            `json:"key"`
	ThreadID  string            `json:"thread_id,omitempty"`
	Turns     int               `json:"turns"`
	LastUsed  time.Time         `json:"last_used,omitzero"`
	Bound     bool              `json:"bound"`
	Ephemeral []store.Ephemeral `json:"ephemeral,omitempty"`
}

// TaskStatus is what is known of one task.
type TaskStatus struct {
	ID      string     `json:"id"`
	WorkDir string     `json:"workdir"`
	Where   string     `json:"where"` // queued, running, waiting, settled, rejected, unknown
	Row     *store.Row `json:"row,omitempty"`
	Explain []string   `json:"explain"`
	Result  string     `json:"result,omitempty"` // where the result lies
}
