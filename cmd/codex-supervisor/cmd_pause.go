package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
)

func newPauseCommand(env *environment) *cobra.Command {
	return workDirCommand(env, "pause", "Start no new turns in a work dir",
		"Start no new turns in a work dir. Running ones go on; tasks wait in order.", "paused",
		func(ctx context.Context, c *control.Client, dir string) (control.Done, error) {
			return c.Pause(ctx, dir, true)
		})
}

func newResumeCommand(env *environment) *cobra.Command {
	return workDirCommand(env, "resume", "Let a paused work dir go on",
		"Let a paused work dir go on.", "goes on",
		func(ctx context.Context, c *control.Client, dir string) (control.Done, error) {
			return c.Pause(ctx, dir, false)
		})
}

func newRestartCommand(env *environment) *cobra.Command {
	return workDirCommand(env, "restart", "Replace the app-server of a work dir",
		"Replace the app-server of a work dir. Running turns may finish first, for as long as\nreplace_drain says (30s); threads are kept.", "restarting",
		func(ctx context.Context, c *control.Client, dir string) (control.Done, error) {
			return c.Restart(ctx, dir)
		})
}

func workDirCommand(env *environment, name, title, long, done string, call func(context.Context, *control.Client, string) (control.Done, error)) *cobra.Command {
	return &cobra.Command{
		Use: name + " [WORKDIR]", Short: title, Long: long + "\n\nWORKDIR is its name or directory, and not needed when there is one.\n" + exitHelp,
		Example: "  codex-supervisor " + name + " garden",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(c.CommandPath()+" --help", "%s wants one work dir", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			work := ""
			if len(args) == 1 {
				work = args[0]
			}
			client, dir, err := env.service(c.Context(), work)
			if err != nil {
				return err
			}
			reply, err := call(c.Context(), client, dir)
			if err != nil {
				return err
			}
			env.say("%s: %s", reply.WorkDir, done)
			return nil
		},
	}
}
