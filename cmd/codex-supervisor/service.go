package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
)

// addWorkFlag lets a command choose a work dir of the running service.
func addWorkFlag(c *cobra.Command, work *string) {
	c.Flags().StringVar(work, "work", "", "which `work dir`: its name or directory; not needed when there is one")
	// What refusals of the service call it; the same thing.
	c.Flags().StringVar(work, "workdir", "", "same as --work")
	_ = c.Flags().MarkHidden("workdir")
}

// service is the running service, and the work dir in its words.
func (e *environment) service(ctx context.Context, work string) (*control.Client, string, error) {
	dir, err := workDirName(work)
	if err != nil {
		return nil, "", err
	}
	client, err := e.dial(ctx)
	return client, dir, err
}
