package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// runOptions are the flags of run.
type runOptions struct {
	file string
	serviceFlags
}

func newRunCommand(env *environment) *cobra.Command {
	o := &runOptions{}
	c := &cobra.Command{
		Use:   "run (--work DIR | --config FILE)",
		Short: "Run the service",
		Long: `Run the service in the foreground until SIGTERM or Ctrl-C.

It answers every DIR/tasks/ID.txt with DIR/results/ID.txt. Flags describe one
work dir; --config describes any number of them. What the service has to
remember lies in its state dir, which is outside the work dir: --state, else
$STATE_DIRECTORY/NAME (systemd), else ~/.local/state/codex-supervisor/NAME.

The first signal lets running turns finish (drain_timeout, 30s); a second one
leaves them for the next start, which goes on where they were cut.

Every channel keeps its thread by itself. --thread-id CHANNEL=THREAD makes a
channel use one that exists already, and only that channel.
` + exitHelp,
		Example: "  codex-supervisor run --work ~/agent\n" +
			"  codex-supervisor run --config /etc/codex-supervisor.toml",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			return runRun(c.Context(), o, env, o.overlay(c, env))
		},
	}
	c.Flags().StringVar(&o.file, "config", "", "read this TOML `file`; flags given besides win")
	o.addFlags(c)
	return c
}

func runRun(ctx context.Context, o *runOptions, env *environment, flags config.Overlay) error {
	c, err := config.Load(o.file, flags, env.getenv)
	if err != nil {
		return err
	}
	for _, w := range c.WorkDirs {
		if _, err := os.Stat(w.Path); errors.Is(err, fs.ErrNotExist) {
			return &exitError{code: exitFailure, message: fmt.Sprintf("work dir %q does not exist", w.Path), try: "mkdir -p " + w.Path}
		}
	}
	log := newLogger(env.stderr, c.Log)
	defer surviveHangups(log)()
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	dirs, warn := workDirOptions(c, env.getenv, log)
	// The lock of the work dir comes first: that it is taken is the plainest
	// thing to say about a second instance, whose sockets would clash too.
	sup, err := supervisor.New(supervisor.Options{
		WorkDirs: dirs, DrainTimeout: c.DrainTimeout, Version: version(), Registerer: registry, Logger: log,
	})
	if err != nil {
		return err
	}
	api, err := control.Open(control.Options{
		Backend: control.Of(sup), Socket: c.Socket, Listen: c.Listen, Gatherer: registry, Paths: controlPaths(dirs), Logger: log,
	})
	if err != nil {
		return err // the process ends, and with it all locks
	}
	warn()
	log.Info("serving", "version", version(), "pid", os.Getpid(), "workdirs", len(dirs), "socket", c.Socket, "listen", api.Addr())
	return serve(ctx, env, sup, api)
}

// surviveHangups keeps SIGHUP, with which people ask daemons to read their
// configuration again, from ending the service. It ends when stop returns.
func surviveHangups(log *slog.Logger) (stop func()) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := make(chan struct{})
	go func() { // ends with hangups
		defer close(ended)
		for range hangups {
			log.Warn("SIGHUP does nothing in this version", "try", "restart the service to apply a new configuration")
		}
	}()
	return func() {
		signal.Stop(hangups) // nothing is sent after it returns
		close(hangups)
		<-ended
	}
}

// serve runs both until ctx ends or one of them cannot go on. The API answers
// until the supervisor has stopped, so that a drain can be watched.
func serve(ctx context.Context, env *environment, sup *supervisor.Supervisor, api *control.Server) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	apiCtx, stopAPI := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	var group errgroup.Group
	group.Go(func() error {
		defer close(ended)
		defer stopAPI()
		return sup.Serve(ctx)
	})
	group.Go(func() error {
		defer stop()
		return api.Serve(apiCtx)
	})
	group.Go(func() error {
		select {
		case <-env.hurry: // nil blocks
			sup.Hurry()
		case <-ended:
		}
		return nil
	})
	return group.Wait()
}
