package main

import (
	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

// serviceFlags are those that stand for keys of a configuration.
type serviceFlags struct {
	work, name, state, tasks, results string
	codex, codexHome, listen          string
	model, sandbox, envelope          string
	turnTimeout, grace, drain         config.Duration
	maxTurns                          int
	threadID                          []string
	logLevel, logFormat               string
	rootGuests                        bool
}

func (s *serviceFlags) addFlags(c *cobra.Command) {
	// What a flag shows is what holds without it; only a flag that was given
	// says anything (overlay).
	s.turnTimeout.Duration, s.grace.Duration, s.drain.Duration = config.DefaultTurnTimeout, config.DefaultInterruptGrace, config.DefaultDrainTimeout
	f := c.Flags()
	f.StringVar(&s.work, "work", "", "the work `dir`, with tasks/ and results/")
	f.StringVar(&s.name, "name", "", "its `name` in status, logs and metrics (default: the directory's)")
	f.StringVar(&s.state, "state", "", "the state `dir`; nothing else may write there")
	f.StringVar(&s.tasks, "tasks", "", "the `dir` where task files appear (default: tasks/ of the work dir)")
	f.StringVar(&s.results, "results", "", "the `dir` where replies go (default: results/ of the work dir)")
	f.StringVar(&s.codex, "codex", "", "the codex `program` (default: codex on PATH, npm's native binary)")
	f.StringVar(&s.codexHome, "codex-home", config.CodexHomePrivate, "`home` of the child: private (with your login), inherit (yours), or a path")
	f.StringVar(&s.listen, "listen", config.DefaultListen, "`address` of metrics and health, or off")
	f.StringVar(&s.model, "model", "", "the `model` (default: Codex's own choice)")
	f.StringVar(&s.sandbox, "sandbox", config.SandboxReadOnly, "what owners' turns may do: read-only, workspace-write or danger-full-access; a `mode` of Codex")
	f.Var(&s.turnTimeout, "turn-timeout", "when an owner's turn is interrupted")
	f.Var(&s.grace, "interrupt-grace", "how long an interrupt may take before the child is replaced")
	f.Var(&s.drain, "drain-timeout", "how long running turns may finish at the end")
	f.IntVar(&s.maxTurns, "max-turns", config.DefaultMaxTurns, "how many turns run at once")
	f.StringVar(&s.envelope, "envelope", config.EnvelopeAuto, "the `policy` for task files: auto, accept, layout or strict")
	f.StringArrayVar(&s.threadID, "thread-id", nil, "bind a channel to a thread, `CHANNEL=THREAD`; repeatable")
	f.StringVar(&s.logLevel, "log-level", config.LogInfo, "debug, info, warn or error: the least `level` that is logged")
	f.StringVar(&s.logFormat, "log-format", config.LogAuto, "the `format`: auto (colour on a terminal, else text), text or json")
	f.BoolVar(&s.rootGuests, "unsafe-root-guests", false, "as root, run non-owners' messages although no sandbox binds root")
}

// overlay is what was given: a flag that was not given says nothing.
func (s *serviceFlags) overlay(c *cobra.Command, env *environment) config.Overlay {
	var o config.Overlay
	given := func(name string, value *string) *string {
		if c.Flags().Changed(name) {
			return value
		}
		return nil
	}
	length := func(name string, value *config.Duration) *config.Duration {
		if c.Flags().Changed(name) {
			return value
		}
		return nil
	}
	o.Path, o.Name, o.State = given("work", &s.work), given("name", &s.name), given("state", &s.state)
	o.Tasks, o.Results = given("tasks", &s.tasks), given("results", &s.results)
	o.CodexHome, o.Listen, o.Model = given("codex-home", &s.codexHome), given("listen", &s.listen), given("model", &s.model)
	o.Sandbox, o.Envelope = given("sandbox", &s.sandbox), given("envelope", &s.envelope)
	o.LogLevel, o.LogFormat = given("log-level", &s.logLevel), given("log-format", &s.logFormat)
	o.TurnTimeout, o.InterruptGrace, o.DrainTimeout = length("turn-timeout", &s.turnTimeout), length("interrupt-grace", &s.grace), length("drain-timeout", &s.drain)
	o.Socket = given("socket", &env.socket)
	if c.Flags().Changed("codex") {
		o.Codex = s.codex
	}
	if c.Flags().Changed("max-turns") {
		o.MaxTurns = &s.maxTurns
	}
	if c.Flags().Changed("thread-id") {
		o.ThreadID = s.threadID
	}
	if c.Flags().Changed("unsafe-root-guests") {
		o.UnsafeRootGuests = &s.rootGuests
	}
	return o
}
