package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// taskOptions are the flags of the task commands but drop.
type taskOptions struct {
	work string
	json bool
}

func newTaskCommand(env *environment) *cobra.Command {
	return group("task", "Drop, show, explain, cancel or retry a task",
		"A task is one file in tasks/, answered by one file in results/.",
		newTaskDropCommand(env), newTaskShowCommand(env), newTaskExplainCommand(env),
		newTaskCancelCommand(env), newTaskRetryCommand(env))
}

func newTaskShowCommand(env *environment) *cobra.Command {
	o := &taskOptions{}
	c := &cobra.Command{
		Use:     "show ID",
		Short:   "Show what became of a task",
		Long:    "Show what became of a task: its row in the ledger and every attempt.\n" + exitHelp,
		Example: "  codex-supervisor task show task-1712345678-ab12cd34",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			st, err := o.ask(c.Context(), env, args[0])
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(env.stdout, st)
			}
			showTask(env, st)
			return nil
		},
	}
	o.add(c, true)
	return c
}

func (o *taskOptions) add(c *cobra.Command, data bool) {
	addWorkFlag(c, &o.work)
	if data {
		c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	}
}

// ask asks the service; when there is none, the ledger of --work.
func (o *taskOptions) ask(ctx context.Context, env *environment, id string) (supervisor.TaskStatus, error) {
	client, dir, err := env.service(ctx, o.work)
	if err == nil {
		return client.Task(ctx, dir, id)
	}
	if !noService(err) || o.work == "" {
		return supervisor.TaskStatus{}, err
	}
	w, settleErr := env.singleWorkDir(o.work)
	if settleErr != nil {
		return supervisor.TaskStatus{}, settleErr
	}
	st := supervisor.TaskStatus{ID: id, WorkDir: w.Name}
	readErr := withLedger(w.State, func(db *store.DB) error {
		row, ok, err := db.Row(id)
		if err == nil && ok {
			st.Row = &row
		}
		return err
	})
	if readErr != nil || st.Row == nil {
		return st, err
	}
	env.say("no service is running; this is what the ledger in %s says", w.State)
	st.Where = string(st.Row.State)
	if st.Row.State != store.StateSettled {
		st.Explain = append(st.Explain, "No service is running. The next one settles it first of all.")
	} else {
		st.Explain = append(st.Explain, fmt.Sprintf("It ended at %s: %s (%s).", st.Row.SettledAt.Local().Format(time.DateTime), st.Row.Outcome, st.Row.Reason))
	}
	return st, nil
}

func showTask(env *environment, st supervisor.TaskStatus) {
	rows := [][2]string{{"task", st.ID}, {"work dir", st.WorkDir}, {"where", st.Where}}
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, [2]string{name, shown(value, 300)})
		}
	}
	at := func(name string, t time.Time) {
		if !t.IsZero() {
			rows = append(rows, [2]string{name, t.Local().Format(time.DateTime)})
		}
	}
	if r := st.Row; r != nil {
		add("channel", r.ChannelName)
		add("key", keyPrefix(r.ChannelKey))
		add("tier", string(r.Tier))
		add("envelope", string(r.Verdict))
		add("outcome", string(r.Outcome))
		add("reason", r.Reason.String())
		add("detail", r.Detail)
		add("notice", r.Notice)
		at("file from", r.Queued)
		at("seen", r.Seen)
		at("replied", r.RepliedAt)
		at("settled", r.SettledAt)
		if r.Tokens > 0 {
			add("tokens", strconv.FormatInt(r.Tokens, 10))
		}
		if r.ResultBytes > 0 {
			size := strconv.Itoa(r.ResultBytes) + " bytes"
			if r.Cut {
				size += ", cut; the whole reply is kept in replies/ of the state dir"
			}
			add("reply", size)
		}
	}
	add("result", st.Result)
	fields(env.stdout, rows)
	if st.Row == nil || len(st.Row.Attempts) == 0 {
		return
	}
	var list [][]string
	for _, a := range st.Row.Attempts {
		took := "-"
		if !a.Ended.IsZero() {
			took = short(a.Ended.Sub(a.Began))
		}
		list = append(list, []string{strconv.Itoa(a.N), string(a.Kind), dash(shown(a.ThreadID, 36)), strconv.FormatUint(a.Generation, 10), took, dash(a.End.String())})
	}
	fmt.Fprintln(env.stdout)
	table(env.stdout, "", "TRY | KIND | THREAD | GEN | TOOK | END", list)
}

func newTaskExplainCommand(env *environment) *cobra.Command {
	o := &taskOptions{}
	c := &cobra.Command{
		Use:     "explain ID",
		Short:   "Say in plain words where a task is and why",
		Long:    "Say in plain words where a task is, and what it waits for or how it ended.\n" + exitHelp,
		Example: "  codex-supervisor task explain task-1712345678-ab12cd34",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			st, err := o.ask(c.Context(), env, args[0])
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(env.stdout, st)
			}
			fmt.Fprintf(env.stdout, "Task %s in %s: %s.\n", st.ID, st.WorkDir, st.Where)
			for _, line := range st.Explain {
				wrap(env.stdout, statusWidth, "", shown(strings.TrimSpace(line), 1000))
			}
			return nil
		},
	}
	o.add(c, true)
	return c
}

func newTaskCancelCommand(env *environment) *cobra.Command {
	return taskCommand(env, "cancel", "Stop a task",
		"Stop a task: one that waits is answered as cancelled, one that runs is interrupted.", "is being cancelled",
		func(ctx context.Context, c *control.Client, dir, id string) error { return c.CancelTask(ctx, dir, id) })
}

func newTaskRetryCommand(env *environment) *cobra.Command {
	return taskCommand(env, "retry", "Run a task that ended without a result",
		"Run a task that was skipped, or that ended without a result. One that was answered\nis not run again: its room has its reply.", "is queued again",
		func(ctx context.Context, c *control.Client, dir, id string) error { return c.RetryTask(ctx, dir, id) })
}

func taskCommand(env *environment, name, title, long, done string, call func(context.Context, *control.Client, string, string) error) *cobra.Command {
	o := &taskOptions{}
	c := &cobra.Command{
		Use: name + " ID", Short: title, Long: long + "\n" + exitHelp,
		Example: "  codex-supervisor task " + name + " task-1712345678-ab12cd34",
		Args:    exactly("ID"),
		RunE: func(c *cobra.Command, args []string) error {
			client, dir, err := env.service(c.Context(), o.work)
			if err != nil {
				return err
			}
			if err := call(c.Context(), client, dir, args[0]); err != nil {
				return err
			}
			env.say("task %s %s", args[0], done)
			return nil
		},
	}
	o.add(c, false)
	return c
}
