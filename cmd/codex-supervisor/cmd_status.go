package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
)

// statusOptions are the flags of status.
type statusOptions struct {
	work, state string
	json        bool
}

func newStatusCommand(env *environment) *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:   "status",
		Short: "Show how the service is, and the threads",
		Long: `Show the work dirs of the running service: the child and why it last restarted,
what is queued and running, whether guests can be served, and the threads.

When no service runs it says so (exit 4) and shows the threads that are stored.
` + exitHelp,
		Example: "  codex-supervisor status\n  codex-supervisor status --json | jq '.workdirs[].child.state'",
		Args:    exactly(),
		RunE:    func(c *cobra.Command, _ []string) error { return runStatus(c.Context(), o, env) },
	}
	addWorkFlag(c, &o.work)
	c.Flags().StringVar(&o.state, "state", "", "when no service runs: the state `dir` to read")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

// statusDocument is status --json. Without a service only running and stored
// are there.
type statusDocument struct {
	Running bool `json:"running"`
	*control.Status
	Stored []storedDir `json:"stored,omitempty"`
}

func runStatus(ctx context.Context, o *statusOptions, env *environment) error {
	client, dir, err := env.service(ctx, o.work)
	if noService(err) {
		return storedStatus(o, env, err)
	} else if err != nil {
		return err
	}
	st, err := client.Status(ctx)
	if err != nil {
		return err
	}
	if dir != "" {
		kept := st.WorkDirs[:0]
		for _, w := range st.WorkDirs {
			if w.Name == dir || w.Path == dir {
				kept = append(kept, w)
			}
		}
		if len(kept) == 0 {
			return &exitError{code: exitFailure, message: fmt.Sprintf("the running service has no work dir %q", o.work), try: "codex-supervisor status"}
		}
		st.WorkDirs = kept
	}
	if o.json {
		return printJSON(env.stdout, statusDocument{Running: true, Status: &st})
	}
	page := statusPage{w: env.stdout, now: time.Now()}
	page.service(st)
	for _, w := range st.WorkDirs {
		page.workDir(w)
	}
	return nil
}

func storedStatus(o *statusOptions, env *environment, cause error) error {
	stored, err := env.storedDirs(o.work, o.state)
	if err != nil {
		return err
	}
	if o.json {
		if err := printJSON(env.stdout, statusDocument{Stored: stored}); err != nil {
			return err
		}
		return cause
	}
	fmt.Fprintln(env.stdout, "No service is running.")
	page := statusPage{w: env.stdout, now: time.Now()}
	for _, d := range stored {
		fmt.Fprintf(env.stdout, "\n%s  stored in %s\n", d.Name, d.State)
		if d.Problem != "" {
			wrap(env.stdout, statusWidth, "  ", d.Problem)
			continue
		}
		page.threads(d.Threads)
	}
	return cause
}
