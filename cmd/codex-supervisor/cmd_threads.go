package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// threadsOptions are the flags of the threads commands.
type threadsOptions struct {
	work, state string
	json        bool
}

func newThreadsCommand(env *environment) *cobra.Command {
	return group("threads", "List, show, bind or reset the threads of channels", `Every channel has one Codex thread for its owners, which remembers. Everybody
else's messages run on threads that end with their turn; the last 20 of a
channel are listed, and never used again.

CHANNEL is the channel_id of the task files, or the channel's key ("show" takes
its first 8 digits too). Tasks without a channel_id share the key "default".`,
		newThreadsListCommand(env), newThreadsShowCommand(env), newThreadsBindCommand(env), newThreadsResetCommand(env))
}

func (o *threadsOptions) add(c *cobra.Command, offline bool) {
	addWorkFlag(c, &o.work)
	if offline {
		c.Flags().StringVar(&o.state, "state", "", "when no service runs: the state `dir` to read")
		c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	}
}

func newThreadsListCommand(env *environment) *cobra.Command {
	o := &threadsOptions{}
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the channels and their threads",
		Long:    "List the channels and their threads. When no service runs, what is stored.\n" + exitHelp,
		Example: "  codex-supervisor threads list --json",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			list, err := o.read(c.Context(), env)
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(env.stdout, list)
			}
			now := time.Now()
			rows := make([][]string, 0, len(list))
			for _, t := range list {
				bound := ""
				if t.Bound {
					bound = "bound"
				}
				rows = append(rows, []string{
					shown(dash(t.Channel), 30), keyPrefix(t.Key), dash(t.ThreadID), strconv.Itoa(t.Turns), used(t.LastUsed, now), strconv.Itoa(len(t.Ephemeral)), bound,
				})
			}
			table(env.stdout, "", "CHANNEL | KEY | THREAD | TURNS | USED | GUESTS | ", rows)
			return nil
		},
	}
	o.add(c, true)
	return c
}

// read asks the service, or the ledger when there is none.
func (o *threadsOptions) read(ctx context.Context, env *environment) ([]supervisor.ThreadStatus, error) {
	client, dir, err := env.service(ctx, o.work)
	if err == nil {
		t, err := client.Threads(ctx, dir)
		return t.Threads, err
	}
	if !noService(err) {
		return nil, err
	}
	stored, storedErr := env.storedDirs(o.work, o.state)
	if storedErr != nil {
		return nil, storedErr
	}
	switch {
	case len(stored) == 0:
		return nil, err
	case len(stored) > 1:
		return nil, usage("--work DIR or --state DIR", "no service is running, and there is more than one state dir")
	case stored[0].Problem != "":
		return nil, &exitError{code: exitNoService, message: fmt.Sprintf("no service is running, and %s: %s", stored[0].State, stored[0].Problem), try: "codex-supervisor run --work DIR"}
	}
	env.say("no service is running; this is what is stored in %s", stored[0].State)
	return stored[0].Threads, nil
}

func newThreadsShowCommand(env *environment) *cobra.Command {
	o := &threadsOptions{}
	c := &cobra.Command{
		Use:     "show CHANNEL",
		Short:   "Show one channel: its thread and the last ones of guests",
		Long:    "Show one channel: its thread and the last ones of guests.\n" + exitHelp,
		Example: "  codex-supervisor threads show garden",
		Args:    exactly("CHANNEL"),
		RunE: func(c *cobra.Command, args []string) error {
			list, err := o.read(c.Context(), env)
			if err != nil {
				return err
			}
			t, err := findChannel(list, args[0])
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(env.stdout, t)
			}
			showThread(env, t)
			return nil
		},
	}
	o.add(c, true)
	return c
}

// findChannel takes the readable name, the key, or a prefix of it that is unique
// and as long as what status shows.
func findChannel(list []supervisor.ThreadStatus, channel string) (supervisor.ThreadStatus, error) {
	var found []supervisor.ThreadStatus
	for _, t := range list {
		if t.Channel == channel || t.Key == channel {
			return t, nil
		}
		if len(channel) >= 8 && strings.HasPrefix(t.Key, channel) {
			found = append(found, t)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return supervisor.ThreadStatus{}, &exitError{code: exitFailure, message: fmt.Sprintf("channel %q is not known", channel), try: "codex-supervisor threads list"}
}

func showThread(env *environment, t supervisor.ThreadStatus) {
	rows := [][2]string{{"channel", dash(shown(t.Channel, 80))}, {"key", t.Key}, {"thread", dash(t.ThreadID)}}
	if t.ThreadID != "" {
		rows = append(rows, [2]string{"turns", strconv.Itoa(t.Turns)})
		if !t.LastUsed.IsZero() {
			rows = append(rows, [2]string{"last used", t.LastUsed.Local().Format(time.DateTime)})
		}
		if t.Bound {
			rows = append(rows, [2]string{"bound", "by the operator; never replaced by a fresh one"})
		}
	}
	fields(env.stdout, rows)
	if len(t.Ephemeral) == 0 {
		return
	}
	fmt.Fprintln(env.stdout, "\nThreads of guests, ended with their turns:")
	var list [][]string
	for _, e := range t.Ephemeral {
		list = append(list, []string{e.Started.Local().Format(time.DateTime), string(e.Tier), shown(e.TaskID, 30), e.ThreadID})
	}
	table(env.stdout, "", "STARTED | TIER | TASK | THREAD", list)
}

func newThreadsBindCommand(env *environment) *cobra.Command {
	o := &threadsOptions{}
	c := &cobra.Command{
		Use:   "bind CHANNEL THREAD",
		Short: "Make a channel use a thread that exists",
		Long: `Make a channel use a thread that exists, from its next task on. A bound thread is
never replaced by a fresh one: when Codex does not have it, the room is told so.
` + exitHelp,
		Example: "  codex-supervisor threads bind garden 0199a213-81c0-7800-8aa1-bbab2a035a53",
		Args:    exactly("CHANNEL", "THREAD"),
		RunE: func(c *cobra.Command, args []string) error {
			client, dir, err := env.service(c.Context(), o.work)
			if err != nil {
				return err
			}
			if err := client.BindThread(c.Context(), dir, args[0], args[1]); err != nil {
				return err
			}
			env.say("channel %s uses thread %s from its next task on", args[0], args[1])
			return nil
		},
	}
	o.add(c, false)
	return c
}

func newThreadsResetCommand(env *environment) *cobra.Command {
	o := &threadsOptions{}
	c := &cobra.Command{
		Use:     "reset CHANNEL",
		Short:   "Let a channel begin a new conversation",
		Long:    "Let a channel begin a new conversation with its next task. The old thread stays\nwith Codex; `threads bind` brings it back. Its id is printed.\n" + exitHelp,
		Example: "  codex-supervisor threads reset garden",
		Args:    exactly("CHANNEL"),
		RunE: func(c *cobra.Command, args []string) error {
			client, dir, err := env.service(c.Context(), o.work)
			if err != nil {
				return err
			}
			old, err := client.ResetThread(c.Context(), dir, args[0])
			if err != nil {
				return err
			}
			fmt.Fprintln(env.stdout, old)
			env.say("channel %s begins afresh with its next task; it was on the thread above", args[0])
			return nil
		},
	}
	o.add(c, false)
	return c
}
