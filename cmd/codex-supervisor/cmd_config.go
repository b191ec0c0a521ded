package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

// configOptions are the flags of config check and show.
type configOptions struct {
	file string
	json bool
	serviceFlags
}

func newConfigCommand(env *environment) *cobra.Command {
	return group("config", "Check or show the configuration", `Check a configuration before it is used, or show what holds and where each value
comes from. Nothing is started or changed.`, newConfigCheckCommand(env), newConfigShowCommand(env))
}

func newConfigCheckCommand(env *environment) *cobra.Command {
	o := &configOptions{}
	c := &cobra.Command{
		Use:     "check (--config FILE | --work DIR)",
		Short:   "Say what is wrong with a configuration, all of it at once",
		Long:    "Say what is wrong with a configuration, with line and column, all of it at once.\n" + exitHelp,
		Example: "  codex-supervisor config check --config codex-supervisor.toml",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			settled, err := config.Load(o.file, o.overlay(c, env), env.getenv)
			if err != nil {
				return err
			}
			for _, warning := range settled.Warnings {
				env.say("warning: %s", warning)
			}
			fmt.Fprintf(env.stdout, "ok: %d work dirs\n", len(settled.WorkDirs))
			return nil
		},
	}
	o.add(c)
	return c
}

func newConfigShowCommand(env *environment) *cobra.Command {
	o := &configOptions{}
	c := &cobra.Command{
		Use:     "show (--config FILE | --work DIR)",
		Short:   "Show every value that holds, and where it comes from",
		Example: "  codex-supervisor config show --work ~/agent",
		Args:    exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			settled, err := config.Load(o.file, o.overlay(c, env), env.getenv)
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(env.stdout, settled.Settings())
			}
			fmt.Fprint(env.stdout, settled.Describe())
			return nil
		},
	}
	o.add(c)
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	return c
}

func (o *configOptions) add(c *cobra.Command) {
	c.Flags().StringVar(&o.file, "config", "", "the TOML `file`")
	o.addFlags(c)
}
