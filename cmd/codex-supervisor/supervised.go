package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/time/rate"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// workDirOptions are the settled configuration in the supervisor's words.
// The warnings are for later: a second instance has nothing to warn about.
func workDirOptions(c *config.Config, getenv func(string) string, log *slog.Logger) (list []supervisor.WorkDirOptions, warn func()) {
	var warnings []func()
	later := func(level slog.Level, message string, args ...any) {
		warnings = append(warnings, func() { log.Log(context.Background(), level, message, args...) })
	}
	for _, w := range c.WorkDirs {
		o := supervisor.WorkDirOptions{
			Name: w.Name, Path: w.Path, Tasks: w.Tasks, Results: w.Results, State: w.State, KeyFile: w.HMACKey,
			Codex: w.Codex, CodexHome: w.CodexHome, CodexHomeFrom: w.CodexHomeFrom, EnvPass: w.EnvPass, ShellEnv: w.ShellEnv,
			Model: w.Model, Sandbox: sandbox.Mode(w.Sandbox), Cwd: w.Cwd,
			TurnTimeout: w.TurnTimeout, InterruptGrace: w.InterruptGrace, QuietAfter: w.QuietAfter,
			ReplaceDrain: w.ReplaceDrain, StartTimeout: w.StartTimeout, MaxTurns: w.MaxTurns, Ageing: w.Ageing,
			Envelope: task.Policy(w.Envelope), AttachmentRoots: w.AttachmentRoots, MaxResultBytes: int(w.MaxResultBytes),
			DoneRetention: w.DoneRetention, MaxBacklogAge: w.MaxBacklogAge, Bind: w.ThreadID,
			UnsafeRootGuests: w.UnsafeRootGuests, Tiers: tierOptions(c),
		}
		if c.File != "" {
			o.Deny = append(o.Deny, c.File)
		}
		if c.Socket != "" {
			o.Private = append(o.Private, filepath.Dir(c.Socket))
		}
		for _, other := range c.WorkDirs {
			if other.Name != w.Name {
				o.Private = append(o.Private, other.Path, other.State)
			}
		}
		if o.Sandbox == sandbox.FullAccess {
			later(slog.LevelWarn, "danger-full-access: an owner's turn can do whatever the service's user can; nothing here is a boundary against it", "workdir", w.Name)
		}
		if o.CodexHomeFrom == "" {
			o.CodexHomeFrom = userCodexHome(getenv)
		}
		// A codex that is missing is no reason to end: the service looks for it at
		// each start of a child, and whoever installs it need not remember to
		// start the service.
		configured := o.Codex
		o.FindCodex = func() ([]string, error) {
			program, err := nativeCodex(configured[0])
			if err != nil {
				return nil, err
			}
			return append([]string{program}, configured[1:]...), nil
		}
		if program, err := nativeCodex(o.Codex[0]); err != nil {
			later(slog.LevelError, "codex not found; trying again until it is there", "workdir", w.Name, "error", err,
				"try", "npm install -g @openai/codex, or --codex PROGRAM")
		} else {
			o.Codex = append([]string{program}, o.Codex[1:]...)
		}
		for _, idle := range []struct {
			key string
			set bool
		}{
			{"max_thread_bytes", w.MaxThreadBytes > 0},
			{"max_child_rss", w.MaxChildRSS > 0},
			{"idle_exit", w.IdleExit > 0},
			{"warm_spare", w.WarmSpare},
		} {
			if idle.set {
				later(slog.LevelWarn, "key has no effect in this version", "workdir", w.Name, "key", idle.key)
			}
		}
		if os.Geteuid() == 0 && !w.UnsafeRootGuests {
			later(slog.LevelWarn, "running as root: messages of everybody but owners are refused, since a sandbox does not bind root",
				"workdir", w.Name, "try", "run it as a user of its own")
		}
		list = append(list, o)
	}
	for _, warning := range c.Warnings {
		later(slog.LevelWarn, "configuration", "warning", warning)
	}
	return list, func() {
		for _, w := range warnings {
			w()
		}
	}
}

func tierOptions(c *config.Config) map[task.Tier]supervisor.TierOptions {
	tiers := map[task.Tier]supervisor.TierOptions{}
	for name, t := range c.Tiers {
		o := supervisor.TierOptions{Disabled: !t.Enabled, Read: t.Read, Model: t.Model, TurnTimeout: t.TurnTimeout, MaxTurns: t.MaxTurns}
		if t.Rate.Count > 0 {
			o.Rate, o.Burst = rate.Limit(float64(t.Rate.Count)/t.Rate.Per.Seconds()), t.Rate.Count
		}
		tiers[task.Tier(name)] = o
	}
	return tiers
}

// userCodexHome is where the user's own Codex keeps login and configuration.
func userCodexHome(getenv func(string) string) string {
	if dir := getenv("CODEX_HOME"); dir != "" {
		return dir
	}
	return filepath.Join(getenv("HOME"), ".codex")
}

// controlPaths are what the API has to know of each work dir.
func controlPaths(dirs []supervisor.WorkDirOptions) map[string]control.Paths {
	paths := map[string]control.Paths{}
	for _, w := range dirs {
		paths[w.Name] = control.Paths{Results: w.Results, KeyFile: w.KeyFile}
	}
	return paths
}

// workDirName is what --work says in the service's words: a path is made
// absolute, a name stays one. "" is the only work dir there is.
func workDirName(work string) (string, error) {
	if work == "" || work != "." && work != ".." && !strings.ContainsRune(work, '/') {
		return work, nil
	}
	path, err := filepath.Abs(work)
	if err != nil {
		return "", fmt.Errorf("find work dir: %w", err)
	}
	return path, nil
}
