package control

import (
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// The documents of the API. Fields are added, never renamed: clients of another
// version read them too.

// Status is GET /v1/status.
type Status struct {
	supervisor.Status
	Socket string `json:"socket"`
	Listen string `json:"listen,omitempty"` // of metrics and health; "" = off
}

// Threads is GET /v1/workdirs/{wd}/threads.
type Threads struct {
	WorkDir string                    `json:"workdir"`
	Threads []supervisor.ThreadStatus `json:"threads"`
}

// BindRequest is POST /v1/workdirs/{wd}/threads.
type BindRequest struct {
	Channel string `json:"channel"`
	Thread  string `json:"thread"`
}

// ResetReply is DELETE /v1/workdirs/{wd}/threads?channel=CHANNEL.
type ResetReply struct {
	Channel string `json:"channel"`
	Thread  string `json:"thread"` // the one it had
}

// DropRequest is POST /v1/workdirs/{wd}/tasks.
type DropRequest struct {
	Tier     task.Tier      `json:"tier"`
	Channel  string         `json:"channel,omitempty"`
	Priority *task.Priority `json:"priority,omitempty"` // normal when absent; its zero is urgent
	Sender   string         `json:"sender,omitempty"`
	Text     string         `json:"text"`
}

// DropReply says which task it became.
type DropReply struct {
	ID      string `json:"id"`
	WorkDir string `json:"workdir"`
}

// Models is GET /v1/workdirs/{wd}/models.
type Models struct {
	WorkDir string  `json:"workdir"`
	Models  []Model `json:"models"`
}

// Model is one model that Codex offers.
type Model struct {
	ID            string   `json:"id"`
	Model         string   `json:"model"`
	Name          string   `json:"name,omitempty"`
	Description   string   `json:"description,omitempty"`
	Default       bool     `json:"default,omitempty"`
	Hidden        bool     `json:"hidden,omitempty"`
	DefaultEffort string   `json:"default_effort,omitempty"`
	Efforts       []string `json:"efforts,omitempty"`
}

// Done is the reply of an operation that has nothing else to say.
type Done struct {
	WorkDir string `json:"workdir"`
	Task    string `json:"task,omitempty"`
	Done    string `json:"done"` // cancel, retry, bind, pause, resume, restart
}
