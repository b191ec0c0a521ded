package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

// hiddenCommands are those that are not for people.
func hiddenCommands(env *environment) []*cobra.Command {
	return []*cobra.Command{newStubCommand(env)}
}

// newStubCommand makes this program play Codex: `codex-supervisor stub` stands
// where `codex` would, so all that follows is Codex's own command line.
func newStubCommand(env *environment) *cobra.Command {
	return &cobra.Command{
		Use:                "stub app-server",
		Short:              "Play the Codex app-server, for demo and tests",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := stubserver.Main(args, os.Environ(), env.stdin, env.stdout, env.stderr); code != exitOK {
				return &exitError{code: code}
			}
			return nil
		},
	}
}
