package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
	"github.com/codex-supervisor/codex-supervisor/internal/control"
)

// run is the program: it ends with an exit code and never by itself.
func run(ctx context.Context, args []string, env *environment) int {
	root := newRootCommand(env)
	root.SetArgs(args)
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	message, try, code := verdict(err)
	if message == "" {
		return code
	}
	env.say("%s", message)
	if try != "" {
		env.say("try: %s", try)
	}
	return code
}

func newRootCommand(env *environment) *cobra.Command {
	c := &cobra.Command{
		Use:   "codex-supervisor",
		Short: "Answer task files by a supervised Codex app-server",
		Long: `codex-supervisor watches the tasks/ of a work dir, asks Codex, and writes the
replies to its results/. It keeps one Codex app-server running per work dir,
gives each owner's channel a conversation of its own, and runs everybody else
confined and without memory.

Begin with:  codex-supervisor demo
Then:        codex-supervisor run --work DIR      in one terminal
             codex-supervisor task drop --wait "What is in this directory?"
             codex-supervisor status` + "\n" + exitHelp,
		SilenceErrors: true, SilenceUsage: true,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	c.PersistentPreRun = func(c *cobra.Command, _ []string) {
		if env.catch != nil && (c.Name() == "run" || c.Name() == "demo") {
			caught, hurry := env.catch(c.Context())
			c.SetContext(caught)
			env.hurry = hurry
		}
	}
	c.SuggestionsMinimumDistance = 2
	c.PersistentFlags().StringVar(&env.socket, "socket", "", "the `path` of the service's control socket (default: where run puts it)")
	c.SetFlagErrorFunc(flagError)
	c.SetUsageTemplate(strings.ReplaceAll(c.UsageTemplate(), ".FlagUsages", ".FlagUsagesWrapped 80"))
	c.AddCommand(
		newRunCommand(env), newDemoCommand(env), newStatusCommand(env), newThreadsCommand(env), newTaskCommand(env),
		newEnvelopeCommand(env), newModelsCommand(env), newPauseCommand(env), newResumeCommand(env), newRestartCommand(env),
		newConfigCommand(env), newDoctorCommand(env), newVersionCommand(env),
	)
	c.AddCommand(hiddenCommands(env)...)
	return c
}

// group is a command that only has others below it.
func group(use, short, long string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		},
	}
	c.SuggestionsMinimumDistance = 2
	c.AddCommand(commands...)
	return c
}

func unknownCommand(c *cobra.Command, name string) error {
	try := c.CommandPath() + " --help"
	if near := c.SuggestionsFor(name); len(near) > 0 {
		for i := range near {
			near[i] = c.CommandPath() + " " + near[i]
		}
		try = strings.Join(near, ", ")
	}
	return usage(try, "there is no command %q", strings.TrimSpace(c.CommandPath()+" "+name))
}

// flagError says what is near to a flag that does not exist.
func flagError(c *cobra.Command, err error) error {
	if args := c.Flags().Args(); len(args) > 0 && c.HasSubCommands() {
		return unknownCommand(c, args[0]) // whose flag it was meant to be
	}
	try := c.CommandPath() + " --help"
	if name, ok := strings.CutPrefix(err.Error(), "unknown flag: --"); ok {
		if near := nearestFlag(c, name); near != "" {
			try = "--" + near
		}
	}
	return usage(try, "%s", err)
}

// exactly wants as many arguments as it names.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == len(names) {
			return nil
		}
		if len(names) == 0 {
			return usage(c.CommandPath()+" --help", "%s takes no argument, and got %q", c.CommandPath(), args[0])
		}
		return usage(c.CommandPath()+" --help", "%s wants %s", c.CommandPath(), strings.Join(names, " and "))
	}
}

// dial connects to the running service.
func (e *environment) dial(ctx context.Context) (*control.Client, error) {
	candidates := config.SocketCandidates(e.getenv)
	if e.socket != "" {
		candidates = []string{e.socket}
	}
	return control.Dial(ctx, candidates)
}

func noService(err error) bool { return errors.Is(err, control.ErrNoService) }
