package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// dropOptions are the flags of task drop.
type dropOptions struct {
	work, tier, channel, priority, sender string
	wait                                  bool
	timeout                               time.Duration
	json                                  bool
}

// Times of waiting for a result.
const (
	defaultDropTimeout = 10 * time.Minute
	dropLook           = 150 * time.Millisecond
)

func newTaskDropCommand(env *environment) *cobra.Command {
	o := &dropOptions{}
	c := &cobra.Command{
		Use:   "drop [TEXT...]",
		Short: "Ask something: put a task into tasks/",
		Long: `Put a task into tasks/ and print its id; with --wait, print the reply instead.
The text is the arguments, or standard input when there are none (or "-").

The running service writes the file. When none runs, --work DIR writes it
directly, and the next service answers it. The file is stamped when the work dir
has a key.

With --wait the exit status is 0 for an answer and 1 for everything else.
` + exitHelp,
		Example: "  codex-supervisor task drop --wait What is in this directory?\n" +
			"  codex-supervisor task drop --work ~/agent --tier guest --channel garden < question.txt",
		RunE: func(c *cobra.Command, args []string) error { return runTaskDrop(c.Context(), o, args, env) },
	}
	addWorkFlag(c, &o.work)
	f := c.Flags()
	f.StringVar(&o.tier, "tier", string(task.Owner), "who asks: `tier` owner, team, guest, ambient")
	f.StringVar(&o.channel, "channel", "", "the conversation (`channel_id`); without one, \"default\"")
	f.StringVar(&o.priority, "priority", task.Normal.String(), "`word` urgent, normal, low")
	f.StringVar(&o.sender, "sender", "", "`name` of who asks, as the model sees it")
	f.BoolVar(&o.wait, "wait", false, "wait for the reply and print it")
	f.DurationVar(&o.timeout, "timeout", defaultDropTimeout, "how long --wait waits")
	f.BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func runTaskDrop(ctx context.Context, o *dropOptions, args []string, env *environment) error {
	ask, err := o.request(args, env.stdin)
	if err != nil {
		return err
	}
	client, dir, err := env.service(ctx, o.work)
	switch {
	case err == nil:
		reply, err := client.DropTask(ctx, dir, ask)
		if err == nil {
			return o.after(ctx, env, reply, func(ctx context.Context) (dropResult, bool, error) { return askResult(ctx, client, reply) })
		}
		// A service that does not know the directory is no reason not to write there.
		var refused *control.Error
		if !errors.As(err, &refused) || refused.Code != supervisor.CodeNotFound || !filepath.IsAbs(dir) {
			return err
		}
	case !noService(err):
		return err
	case o.work == "":
		return &exitError{code: exitNoService, message: err.Error(), try: "codex-supervisor run --work DIR, or name the work dir by --work DIR to leave the task there"}
	}
	reply, results, err := o.write(ask, env)
	if err != nil {
		return err
	}
	env.say("no service serves %s now; the task waits there", o.work)
	return o.after(ctx, env, reply, func(context.Context) (dropResult, bool, error) {
		text, err := os.ReadFile(filepath.Join(results, reply.ID+".txt"))
		if errors.Is(err, fs.ErrNotExist) {
			return dropResult{}, false, nil
		}
		return dropResult{DropReply: reply, Answered: true, Text: string(text)}, true, err
	})
}

// request reads what is asked.
func (o *dropOptions) request(args []string, stdin io.Reader) (control.DropRequest, error) {
	ask := control.DropRequest{Channel: o.channel, Sender: o.sender, Text: strings.Join(args, " ")}
	if len(args) == 0 || len(args) == 1 && args[0] == "-" {
		text, err := io.ReadAll(io.LimitReader(stdin, task.MaxBytes+1))
		if err != nil {
			return ask, fmt.Errorf("read the task: %w", err)
		}
		ask.Text = string(text)
	}
	var ok bool
	if ask.Tier, ok = task.CanonicalTier(o.tier); !ok {
		return ask, usage("--tier owner, team, guest or ambient", "there is no tier %q", o.tier)
	}
	priority, ok := task.ParsePriority(o.priority)
	ask.Priority = &priority
	if !ok {
		return ask, usage("--priority urgent, normal or low", "there is no priority %q", o.priority)
	}
	switch {
	case strings.TrimFunc(ask.Text, task.IsSpace) == "":
		return ask, usage("codex-supervisor task drop What is the time?", "the task is empty")
	case len(ask.Text) > task.MaxBytes:
		return ask, usage("put the text into a file of the work dir and ask about it", "the task is over %d bytes", task.MaxBytes)
	}
	return ask, nil
}

// write puts the file into the work dir itself.
func (o *dropOptions) write(ask control.DropRequest, env *environment) (reply control.DropReply, results string, err error) {
	w, err := env.singleWorkDir(o.work)
	if err != nil {
		return reply, "", err
	}
	if info, err := os.Stat(w.Path); err != nil || !info.IsDir() {
		return reply, "", &exitError{code: exitFailure, message: fmt.Sprintf("there is no work dir %q", w.Path), try: "mkdir -p " + w.Path}
	}
	// The service makes it at its first start, which may be this very moment.
	if err := os.MkdirAll(w.Tasks, 0o755); err != nil {
		return reply, "", fmt.Errorf("make tasks dir: %w", err)
	}
	key, err := control.ReadKey(w.HMACKey)
	if err != nil {
		return reply, "", err
	}
	source, err := inbox.New(inbox.Options{Dir: w.Tasks, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return reply, "", fmt.Errorf("open tasks: %w", err)
	}
	reply = control.DropReply{ID: inbox.NewID(), WorkDir: w.Name}
	if err := source.Drop(reply.ID, ask.Bytes(reply.ID, key)); err != nil {
		return reply, "", fmt.Errorf("write task: %w", err)
	}
	return reply, w.Results, nil
}

// dropResult is task drop --wait --json.
type dropResult struct {
	control.DropReply
	Answered bool   `json:"answered"`
	Outcome  string `json:"outcome,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Text     string `json:"text"`
}

// after prints the id, or waits for the result and prints that.
func (o *dropOptions) after(ctx context.Context, env *environment, reply control.DropReply, look func(context.Context) (dropResult, bool, error)) error {
	if !o.wait {
		if o.json {
			return printJSON(env.stdout, reply)
		}
		fmt.Fprintln(env.stdout, reply.ID)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, errWaited)
	defer cancel()
	ticker := time.NewTicker(dropLook)
	defer ticker.Stop()
	for {
		result, ok, err := look(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if ok {
			return o.print(env, result)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			if !errors.Is(context.Cause(ctx), errWaited) {
				return ctx.Err()
			}
			return &exitError{
				code: exitFailure, message: fmt.Sprintf("no reply to %s within %s; the task stays", reply.ID, o.timeout),
				try: "codex-supervisor task explain " + reply.ID,
			}
		}
	}
}

var errWaited = errors.New("the time of --timeout is over")

func (o *dropOptions) print(env *environment, r dropResult) error {
	if o.json {
		if err := printJSON(env.stdout, r); err != nil {
			return err
		}
	} else if r.Text != "" {
		fmt.Fprintln(env.stdout, strings.TrimRight(r.Text, "\n"))
	}
	if r.Answered {
		return nil
	}
	return &exitError{
		code: exitFailure, message: fmt.Sprintf("task %s was not answered: %s (%s)", r.ID, r.Outcome, r.Reason),
		try: "codex-supervisor task explain " + r.ID,
	}
}

// askResult looks whether a task is settled, and fetches its result. A service
// that is away for now is waited for: a restart loses no task.
func askResult(ctx context.Context, client *control.Client, reply control.DropReply) (dropResult, bool, error) {
	st, err := client.Task(ctx, reply.WorkDir, reply.ID)
	var refused *control.Error
	if err != nil {
		if errors.As(err, &refused) && refused.Code != supervisor.CodeDown {
			return dropResult{}, false, err
		}
		return dropResult{}, false, nil
	}
	if st.Row == nil || st.Row.State != store.StateSettled {
		return dropResult{}, false, nil
	}
	r := dropResult{
		DropReply: reply, Answered: st.Row.Outcome == store.Answered,
		Outcome: string(st.Row.Outcome), Reason: st.Row.Reason.String(),
	}
	if st.Result != "" {
		// Whoever posts results may have taken it in this moment.
		text, err := os.ReadFile(st.Result)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return r, true, fmt.Errorf("read reply: %w", err)
		}
		r.Text = string(text)
	}
	return r, true, nil
}
