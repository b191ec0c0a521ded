package doctor

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// Limit is how long everything together takes at most, the end of the
// temporary children included.
const Limit = 30 * time.Second

// How long the parts may take.
const (
	// askingTime is for everything that a temporary child is asked.
	askingTime = 24 * time.Second
	// lookTime is for a check that only looks at this machine.
	lookTime = 5 * time.Second
	// startTime is for a child to come up and answer.
	startTime = 15 * time.Second
	// sandboxTime is for one command in a sandbox; measured are 30 to 220 ms.
	sandboxTime = 8 * time.Second
)

// parallel is how many work dirs are looked at together. Each starts a Codex of
// some 100 MB.
const parallel = 4

// Options say what to look at.
type Options struct {
	// ConfigErr is why the configuration does not load; there are no WorkDirs
	// then. ConfigFile is "" for flags alone.
	ConfigErr  error
	ConfigFile string
	Warnings   []string // of the configuration

	WorkDirs []WorkDir
	Listen   string // address of metrics and health; "" for none
	Socket   string // where a service would listen

	// Service is what the running service says of itself, nil when there is
	// none; ServiceErr is why one that is there could not be asked.
	Service       *control.Status
	ServiceSocket string
	ServiceErr    error

	Environ []string // what children get a part of
	UID     int
}

// WorkDir is one work dir as the service would run it.
type WorkDir struct {
	supervisor.WorkDirOptions
	// Configured is the program as it was written; Codex[0] is what was found.
	// NotFound is why nothing was.
	Configured string
	NotFound   error
}

// doctor is one examination.
type doctor struct {
	Options
	// wrap stands between the commands and the child, whose environment it is
	// told; tests break the sandbox with it. May be nil.
	wrap func(env []string, exec sandbox.ExecFunc) sandbox.ExecFunc
	// patience is how long a child may take to come up.
	patience time.Duration
}

// Run makes all checks. It returns within [Limit], whatever hangs.
func Run(ctx context.Context, o Options) Report {
	return (&doctor{Options: o, patience: startTime}).run(ctx)
}

func (d *doctor) run(ctx context.Context) Report {
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	checks := []Check{d.config()}
	perDir := make([][]Check, len(d.WorkDirs))
	slots := make(chan struct{}, parallel)
	var group sync.WaitGroup
	for i, w := range d.WorkDirs {
		group.Go(func() { // ended by its bounds
			slots <- struct{}{}
			defer func() { <-slots }()
			perDir[i] = d.workDir(ctx, w)
		})
	}
	machine := d.machine(ctx)
	group.Wait()
	if d.ConfigErr != nil {
		for _, id := range workDirIDs() {
			checks = append(checks, unseen(id, "the configuration does not load"))
		}
	}
	for i := range perDir {
		for _, c := range perDir[i] {
			if len(d.WorkDirs) > 1 {
				c.WorkDir = d.WorkDirs[i].Name
			}
			checks = append(checks, c)
		}
	}
	// What a service is comes last: the machine's limits stand before it.
	checks = append(checks, machine...)
	slices.SortStableFunc(checks, func(a, b Check) int { return order(a.ID) - order(b.ID) })
	return report(checks)
}

// order is where a check stands in the report.
func order(id ID) int {
	return slices.Index([]ID{
		ConfigLoads, BinaryFound, BinaryNative, BinaryVersion, CodexConfigLoads, Login, SandboxWorks, Confinement, DirsWritable,
		DirsApart, DiskSpace, Clock, HMACKey, InotifyLimits, NofileLimit, Ports, Socket, ServiceState,
	}, id)
}

func (d *doctor) config() Check {
	from := "the flags"
	if d.ConfigFile != "" {
		from = d.ConfigFile
	}
	switch {
	case d.ConfigErr != nil:
		return fail(ConfigLoads, "`codex-supervisor config check` with the same flags, after mending it", "%s", d.ConfigErr)
	case len(d.Warnings) > 0:
		return warn(ConfigLoads, "", "%s: %s", from, strings.Join(d.Warnings, "; "))
	}
	return ok(ConfigLoads, "%s: %s", from, plural(len(d.WorkDirs), "work dir"))
}

// machine makes the checks that know no work dir.
func (d *doctor) machine(ctx context.Context) []Check {
	return slices.Concat(
		bounded(ctx, lookTime, []ID{InotifyLimits}, func() []Check { return []Check{d.inotify()} }),
		bounded(ctx, lookTime, []ID{NofileLimit}, func() []Check { return []Check{nofile()} }),
		bounded(ctx, lookTime, []ID{Ports}, func() []Check { return []Check{d.ports()} }),
		bounded(ctx, lookTime, []ID{Socket}, func() []Check { return []Check{d.socket()} }),
	)
}

// workDir makes the checks of one work dir.
func (d *doctor) workDir(ctx context.Context, w WorkDir) []Check {
	look := func(id ID, check func(WorkDir) Check) []Check {
		return bounded(ctx, lookTime, []ID{id}, func() []Check { return []Check{check(w)} })
	}
	checks := slices.Concat(
		look(DirsWritable, d.writable), look(DirsApart, apart), look(DiskSpace, space), look(Clock, clock), look(HMACKey, key),
		look(ServiceState, d.service),
	)
	return append(checks, d.codex(ctx, w)...)
}

// bounded runs a check that may hang in the kernel, where no context reaches
// it. What hangs is left to itself: the process ends soon.
func bounded(ctx context.Context, limit time.Duration, ids []ID, check func() []Check) []Check {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan []Check, 1)
	go func() { done <- check() }() // ends with the system call
	select {
	case checks := <-done:
		return checks
	case <-ctx.Done():
		var checks []Check
		for _, id := range ids {
			checks = append(checks, fail(id, "look for a disk, a network file system or a program that hangs", "no answer in time"))
		}
		return checks
	}
}
