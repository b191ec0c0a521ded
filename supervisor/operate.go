package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
)

// Code classifies an operation that was refused.
type Code string

// The codes; the control socket maps them to statuses and the CLI to exits.
const (
	CodeNotFound  Code = "not_found"
	CodeAmbiguous Code = "ambiguous"
	CodeConflict  Code = "conflict"
	CodeInvalid   Code = "invalid"
	CodeDown      Code = "unavailable"
)

// OperationError is a refused operation: what happened and what to try.
type OperationError struct {
	Code    Code
	Message string
	Hint    string
}

func (e *OperationError) Error() string { return e.Message }

// Name is the work dir's name.
func (w *WorkDir) Name() string { return w.opt.Name }

// Status is a snapshot for readers on other goroutines.
func (w *WorkDir) Status() WorkDirStatus {
	s := *w.snapshot.Load()
	s.Child = w.child.Status()
	s.Running = make([]RunningTask, 0, len(s.live))
	for _, r := range s.live {
		s.Running = append(s.Running, *r.Load())
	}
	if rows, err := w.store.Rows(RecentShown); err == nil {
		s.Recent = rows
	}
	slices.SortFunc(s.Running, func(a, b RunningTask) int { return a.Started.Compare(b.Started) })
	return s
}

// do runs a function on the work dir's goroutine and waits for it. The function
// must not block.
func (w *WorkDir) do(ctx context.Context, f func()) error {
	done := make(chan struct{})
	w.post(msgAsk{func() { f(); close(done) }})
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// DropTask puts a new task file into the inbox and returns its id.
func (w *WorkDir) DropTask(raw func(id string) []byte) (string, error) {
	id := inbox.NewID()
	if err := w.source.Drop(id, raw(id)); err != nil {
		return "", fmt.Errorf("drop task: %w", err)
	}
	return id, nil
}

// CancelTask stops a task: a queued one is answered as cancelled, a running one
// is interrupted.
func (w *WorkDir) CancelTask(ctx context.Context, id string) error {
	if err := soundID(id); err != nil {
		return err
	}
	if row, ok, err := w.store.Row(id); err != nil {
		return fmt.Errorf("read ledger: %w", err)
	} else if ok && row.State == store.StateSettled {
		return w.notHere(id) // its walk may still be tidying up
	}
	found := false
	err := w.do(ctx, func() {
		end := &knownEnd{outcome: store.Cancelled, failure: failure{why: reason.Cancelled}}
		switch {
		case w.running[id] != nil:
			found = true
			select {
			case w.running[id].cancel <- reason.Cancelled:
			default: // being stopped already
			}
		case w.queue.queued(id):
			found = true
			it := w.queue.find(id)
			w.queue.remove(id)
			w.waiting[id] = &waiting{item: it, offline: true, end: end}
		case w.waiting[id] != nil:
			found = true
			wt := w.waiting[id]
			if !wt.offline {
				if wt.reserved {
					w.queue.unreserve(flowOf(wt.item))
					wt.reserved = false
				}
				wt.offline, wt.end, wt.after = true, end, time.Time{}
			}
		}
	})
	if err != nil {
		return err
	}
	if !found {
		return w.notHere(id)
	}
	return nil
}

// soundID refuses what cannot be a task's id before it is looked for or shown.
func soundID(id string) error {
	if task.ValidID(id) {
		return nil
	}
	return &OperationError{Code: CodeInvalid, Message: fmt.Sprintf("%.140q is no task id", id), Hint: "`codex-supervisor status` lists the tasks"}
}

func (w *WorkDir) notHere(id string) error {
	row, ok, err := w.store.Row(id)
	switch {
	case err != nil:
		return fmt.Errorf("read ledger: %w", err)
	case ok:
		return &OperationError{Code: CodeConflict, Message: fmt.Sprintf("task %s has ended already: %s", id, row.Reason), Hint: "`codex-supervisor task show " + id + "` tells how"}
	default:
		return &OperationError{Code: CodeNotFound, Message: fmt.Sprintf("no task %s is known in %s", id, w.opt.Name), Hint: "`codex-supervisor status` lists what is queued and running"}
	}
}

// RetryTask runs a task that was skipped, or whose end left no result behind.
// One that was answered is not run again: its room has its reply, and a second
// one for the same id would be dropped by the gateway.
func (w *WorkDir) RetryTask(ctx context.Context, id string) error {
	if err := soundID(id); err != nil {
		return err
	}
	row, ok, err := w.store.Row(id)
	if err != nil {
		return fmt.Errorf("read ledger: %w", err)
	}
	if ok && row.State != store.StateSettled {
		return &OperationError{Code: CodeConflict, Message: fmt.Sprintf("task %s has not ended yet", id), Hint: "`codex-supervisor task explain " + id + "` tells what it waits for"}
	}
	if where, done, err := w.sink.Done(id); err != nil {
		return fmt.Errorf("look for a result: %w", err)
	} else if done {
		return &OperationError{Code: CodeConflict, Message: fmt.Sprintf("task %s has its result already (%s)", id, where), Hint: "send the message again, or `codex-supervisor task drop` it under a new id"}
	}
	if ok && row.Outcome != store.Skipped && !row.RepliedAt.IsZero() {
		return &OperationError{Code: CodeConflict, Message: fmt.Sprintf("task %s was answered at %s", id, row.RepliedAt.Local().Format(time.DateTime)), Hint: "send the message again, or `codex-supervisor task drop` it under a new id"}
	}
	t, err := w.source.Read(id)
	if err != nil {
		return &OperationError{Code: CodeNotFound, Message: fmt.Sprintf("the file of task %s cannot be run: %v", id, err), Hint: "only a task whose file is still in tasks/ can be retried"}
	}
	if ok {
		if err := w.store.DeleteRow(id); err != nil {
			return fmt.Errorf("forget ledger row: %w", err)
		}
		if err := w.sink.Forget(id); err != nil {
			return fmt.Errorf("forget kept reply: %w", err)
		}
	}
	it := inbox.Item{ID: id, ModTime: time.Now()}
	return w.do(ctx, func() { w.take(itemFrom(it, t)) })
}

// itemFrom is the queue's view of a task as its file reads now.
func itemFrom(old inbox.Item, t task.Task) inbox.Item {
	old.Tier, old.ChannelID, old.ChannelKey = t.Tier, t.ChannelID, task.ChannelKey(t.ChannelID)
	old.Priority, old.Verdict = t.Priority, t.Verdict
	return old
}

// Restart replaces the child now; running turns get replace_drain to finish.
func (w *WorkDir) Restart() {
	w.child.order(childOrder{what: orderRestart, why: reason.ChildRestarted})
}

// Pause stops new turns from starting; Resume lets them start again.
func (w *WorkDir) Pause(ctx context.Context, paused bool) error {
	return w.do(ctx, func() { w.paused = paused })
}

// Threads lists the channels and their threads.
func (w *WorkDir) Threads() ([]ThreadStatus, error) {
	channels, err := w.store.Channels()
	if err != nil {
		return nil, fmt.Errorf("list channels: %w", err)
	}
	return ThreadsOf(channels), nil
}

// ThreadsOf renders stored channels, also those read while no service runs.
func ThreadsOf(channels []store.Channel) []ThreadStatus {
	list := make([]ThreadStatus, 0, len(channels))
	for _, c := range channels {
		t := ThreadStatus{Channel: c.Name, Key: c.Key, Ephemeral: c.Ephemeral}
		if o := c.Owner; o != nil {
			t.ThreadID, t.Turns, t.LastUsed, t.Bound = o.ID, o.Turns, o.LastUsed, o.Bound
		}
		list = append(list, t)
	}
	return list
}

// BindThread makes a channel use an existing thread from its next task on.
func (w *WorkDir) BindThread(channel, thread string) error {
	if channel == "" || thread == "" {
		return &OperationError{Code: CodeInvalid, Message: "a channel and a thread are needed", Hint: "CHANNEL=THREAD"}
	}
	if w.opt.CodexHome == sandbox.HomePrivate {
		// Also says whether there is such a thread at all.
		err := sandbox.ImportRollout(sandbox.Home{Dir: w.codexHome()}, w.opt.CodexHomeFrom, thread)
		if errors.Is(err, fs.ErrNotExist) {
			return &OperationError{Code: CodeNotFound, Message: "no thread " + thread + " is stored here or in " + w.opt.CodexHomeFrom, Hint: "`codex resume` lists the stored threads of a user"}
		}
		if err != nil {
			return &OperationError{Code: CodeInvalid, Message: err.Error(), Hint: "a thread id looks like 019a0000-0000-7000-8000-000000000000"}
		}
	}
	return w.threads.Bind(task.ChannelKey(channel), channel, thread)
}

// ResetThread makes a channel's next task start a new conversation. The old
// thread stays with Codex.
func (w *WorkDir) ResetThread(channel string) (string, error) {
	for _, key := range []string{task.ChannelKey(channel), channel} {
		old, ok, err := w.threads.Reset(key)
		if err != nil {
			return "", fmt.Errorf("reset thread: %w", err)
		}
		if ok {
			return old, nil
		}
	}
	return "", &OperationError{Code: CodeNotFound, Message: fmt.Sprintf("channel %q has no thread", channel), Hint: "`codex-supervisor threads list` shows the channels"}
}

// Models asks the child which models there are.
func (w *WorkDir) Models(ctx context.Context) ([]rpc.Model, error) {
	var gen *generation
	if err := w.do(ctx, func() { gen = w.gen }); err != nil {
		return nil, err
	}
	if gen == nil {
		return nil, &OperationError{Code: CodeDown, Message: "the child of " + w.opt.Name + " is not running", Hint: "`codex-supervisor status` says why"}
	}
	reply, err := gen.client.ModelList(ctx, rpc.ModelListParams{})
	if err != nil {
		return nil, fmt.Errorf("list models: %w", err)
	}
	return reply.Data, nil
}

// Task tells what is known of a task and why it is where it is.
func (w *WorkDir) Task(ctx context.Context, id string) (TaskStatus, error) {
	st := TaskStatus{ID: id, WorkDir: w.opt.Name, Where: "unknown"}
	if err := soundID(id); err != nil {
		return st, err
	}
	var facts taskFacts
	if err := w.do(ctx, func() { facts = w.factsOf(id) }); err != nil {
		return st, err
	}
	row, ok, err := w.store.Row(id)
	if err != nil {
		return st, fmt.Errorf("read ledger: %w", err)
	}
	if ok {
		st.Row = &row
		if row.State == store.StateSettled {
			facts = taskFacts{} // its walk is only tidying up
		}
	}
	if where, done, err := w.sink.Done(id); err == nil && done {
		st.Result = where
	}
	_, readErr := w.source.Read(id)
	var rejection *task.Rejection
	if errors.As(readErr, &rejection) {
		readErr = nil
	}
	if !ok && facts.where == "" && st.Result == "" && readErr != nil {
		return st, w.notHere(id)
	}
	st.Where, st.Explain = explain(facts, st, w.Status(), time.Now())
	return st, nil
}
