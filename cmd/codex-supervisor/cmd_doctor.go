package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	file string
	json bool
	serviceFlags
}

func newDoctorCommand(env *environment) *cobra.Command {
	o := &doctorOptions{}
	c := &cobra.Command{
		Use:   "doctor (--work DIR | --config FILE)",
		Short: "Check whether this machine can do the work, and say what to mend",
		Long: `Check whether this machine and this configuration can do the work, and say what
to mend. Give it the flags or the file that run is given, and run it as the
service's user, beside a running service or without one.

It starts a Codex of its own with a throw-away home, asks it for a thread and
for the commands that prove the guests' confinement, and ends it. No turn runs
and no model is asked. Nothing is mended and nothing is left behind; it takes
some seconds, and at most half a minute.

Checks:
  config_loads        the configuration
  binary_found        the codex program
  binary_native       it is Codex itself, and no script that starts it
  binary_version      it is neither too old nor newer than what was tested
  codex_config_loads  Codex reads its config.toml and opens an owner's thread
  login               Codex is logged in, or needs no login
  sandbox_works       a command runs in Codex's sandbox
  confinement         a guest reads nothing of the house
  dirs_writable       tasks, results and state can be written
  dirs_apart          they do not overlap
  disk_space          warns below 1 GB, fails below 200 MB
  clock               files get the time of the clock
  hmac_key            the envelope's key
  inotify_limits      the kernel has watches left
  nofile_limit        enough files may be open
  ports               the address of metrics and health is free, or ours
  socket              the control socket
  service_state       what the running service says of itself

--json prints {"checks": [{"id", "status", "found", "try"}], "ok": bool}, with
"workdir" in each check where there are several; status is ok, warn or fail.
What could not be checked because something else failed is a warning.

Exit status:
  0  no check failed; there may be warnings
  1  a check failed
  2  the command line is wrong
`,
		Example: "  codex-supervisor doctor --work ~/agent\n" +
			"  sudo -u codex codex-supervisor doctor --config /etc/codex-supervisor.toml",
		Args: exactly(),
		RunE: func(c *cobra.Command, _ []string) error {
			ctx := c.Context()
			if env.catch != nil {
				ctx, _ = env.catch(ctx) // what was made for the checks has to go
			}
			return runDoctor(ctx, o, env, o.overlay(c, env))
		},
	}
	c.Flags().StringVar(&o.file, "config", "", "the TOML `file`; flags given besides win")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	o.addFlags(c)
	return c
}

func runDoctor(ctx context.Context, o *doctorOptions, env *environment, flags config.Overlay) error {
	examined := doctor.Options{ConfigFile: o.file, Environ: os.Environ(), UID: os.Geteuid()}
	settled, err := config.Load(o.file, flags, env.getenv)
	if err != nil {
		if o.file == "" && flags.Path == nil {
			return err // nothing was said about what to check
		}
		examined.ConfigErr = err
	} else {
		examined.Warnings, examined.Listen, examined.Socket = settled.Warnings, settled.Listen, settled.Socket
		dirs, _ := workDirOptions(settled, env.getenv, slog.New(slog.DiscardHandler))
		for i, w := range dirs {
			one := doctor.WorkDir{WorkDirOptions: w, Configured: settled.WorkDirs[i].Codex[0]}
			_, one.NotFound = nativeCodex(one.Configured)
			examined.WorkDirs = append(examined.WorkDirs, one)
		}
	}
	env.askService(ctx, &examined)
	report := doctor.Run(ctx, examined)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if o.json {
		if err := printJSON(env.stdout, report); err != nil {
			return err
		}
	} else {
		printReport(env.stdout, report)
	}
	if !report.OK {
		return &exitError{code: exitFailure} // everything has been said
	}
	return nil
}

// askService fills in what the running service knows.
func (e *environment) askService(ctx context.Context, o *doctor.Options) {
	client, err := e.dial(ctx)
	switch {
	case noService(err):
	case err != nil:
		o.ServiceErr = err
	default:
		st, err := client.Status(ctx)
		if err != nil {
			o.ServiceErr = err
			return
		}
		o.Service, o.ServiceSocket = &st, client.Socket()
	}
}

// doctorWidth is the terminal that the report is made for.
const doctorWidth = 80

// printReport writes a report for people: what failed and what to try, what is
// doubtful, what could not be checked, then what holds, one line each, and the
// verdict where the eye ends.
func printReport(w io.Writer, r doctor.Report) {
	problems(w, "FAIL", r.Checks, doctor.Fail)
	problems(w, "warn", r.Checks, doctor.Warn)
	unchecked(w, r.Checks)
	if r.Count(doctor.Fail)+r.Count(doctor.Warn) > 0 {
		fmt.Fprintln(w)
	}
	for _, c := range r.Checks {
		if c.Status == doctor.OK {
			wrap(w, doctorWidth, fmt.Sprintf("ok    %-18s  ", c.ID), elided(printable(inDir(c)), doctorWidth-26))
		}
	}
	verdict := "ok"
	if !r.OK {
		verdict = "NOT OK"
	}
	fmt.Fprintf(w, "\n%s: %d fail, %d warn, %d ok\n", verdict, r.Count(doctor.Fail), r.Count(doctor.Warn), r.Count(doctor.OK))
}

// problems are the checks that ended with status, each with what to try.
func problems(w io.Writer, mark string, checks []doctor.Check, status doctor.Status) {
	for _, c := range checks {
		if _, skipped := c.NotChecked(); skipped || c.Status != status {
			continue
		}
		// A mistake in a configuration shows its line with a caret below.
		first, more, _ := strings.Cut(inDir(c), "\n")
		wrap(w, doctorWidth, mark+"  ", string(c.ID)+": "+printable(first))
		for line := range strings.Lines(more) {
			fmt.Fprintln(w, "      "+shown(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", " "), doctorWidth-6))
		}
		if c.Try != "" {
			wrap(w, doctorWidth, "      try: ", printable(c.Try))
		}
	}
}

// unchecked are the checks that something else stood in the way of, together
// where it was the same.
func unchecked(w io.Writer, checks []doctor.Check) {
	var reasons []string
	ids := map[string][]string{}
	for _, c := range checks {
		why, skipped := c.NotChecked()
		if !skipped {
			continue
		}
		if c.WorkDir != "" {
			why = c.WorkDir + ": " + why
		}
		if ids[why] == nil {
			reasons = append(reasons, why)
		}
		ids[why] = append(ids[why], string(c.ID))
	}
	for _, why := range reasons {
		wrap(w, doctorWidth, "warn  ", "not checked, "+printable(why)+": "+strings.Join(ids[why], ", "))
	}
}

// inDir is what was found, and where, if there are several work dirs.
func inDir(c doctor.Check) string {
	if c.WorkDir != "" {
		return c.WorkDir + ": " + c.Found
	}
	return c.Found
}

// printable is shown without a length: paths are of other people's choosing.
func printable(s string) string { return shown(strings.Join(strings.Fields(s), " "), 2000) }

// elided shortens words that no line can hold, in their middle: the ends of a
// path say most. Only what holds is shortened; what has to be mended is not.
func elided(s string, n int) string {
	words := strings.Fields(s)
	for i, word := range words {
		if r := []rune(word); len(r) > n {
			words[i] = string(r[:n/3]) + "…" + string(r[len(r)-(n-n/3-1):])
		}
	}
	return strings.Join(words, " ")
}
