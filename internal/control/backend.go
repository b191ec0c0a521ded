package control

import (
	"context"

	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// Backend is what the API operates: the supervisor, or a fake in tests.
type Backend interface {
	Status() supervisor.Status
	Ready() (ok bool, problems []string)
	// Dir finds a work dir by name or path; "" is the only one there is.
	Dir(name string) (WorkDir, error)
}

// WorkDir is one work dir of a Backend.
type WorkDir interface {
	Name() string
	Threads() ([]supervisor.ThreadStatus, error)
	BindThread(channel, thread string) error
	ResetThread(channel string) (old string, err error)
	Task(ctx context.Context, id string) (supervisor.TaskStatus, error)
	DropTask(raw func(id string) []byte) (id string, err error)
	CancelTask(ctx context.Context, id string) error
	RetryTask(ctx context.Context, id string) error
	Models(ctx context.Context) ([]Model, error)
	Pause(ctx context.Context, paused bool) error
	Restart()
}

// Of makes a supervisor a Backend.
func Of(s *supervisor.Supervisor) Backend { return house{s} }

type house struct{ *supervisor.Supervisor }

func (h house) Dir(name string) (WorkDir, error) {
	w, err := h.Supervisor.Dir(name)
	if err != nil {
		return nil, err
	}
	return workDir{w}, nil
}

type workDir struct{ *supervisor.WorkDir }

func (w workDir) Models(ctx context.Context) ([]Model, error) {
	found, err := w.WorkDir.Models(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Model, 0, len(found))
	for _, m := range found {
		one := Model{
			ID: m.ID, Model: m.Model, Name: m.DisplayName, Description: m.Description,
			Default: m.IsDefault, Hidden: m.Hidden, DefaultEffort: m.DefaultReasoningEffort,
		}
		for _, e := range m.SupportedReasoningEfforts {
			one.Efforts = append(one.Efforts, e.ReasoningEffort)
		}
		list = append(list, one)
	}
	return list, nil
}
