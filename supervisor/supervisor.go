package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Options is what a Supervisor is made of.
type Options struct {
	WorkDirs     []WorkDirOptions
	DrainTimeout time.Duration // DefaultDrainTimeout when 0
	Version      string        // of this program, for status and build_info
	Registerer   prometheus.Registerer
	Logger       *slog.Logger
	// OnEvent is called as things happen, on the goroutine they happen on. It
	// must return quickly.
	OnEvent func(Event)
}

func (o *Options) validate() error {
	if len(o.WorkDirs) == 0 {
		return errors.New("no work dir is given")
	}
	seen := map[string]bool{}
	for _, w := range o.WorkDirs {
		if w.Name == "" || seen[w.Name] {
			return fmt.Errorf("work dir name %q is empty or used twice", w.Name)
		}
		seen[w.Name] = true
		if len(w.Codex) == 0 {
			return fmt.Errorf("work dir %q: no codex program", w.Name)
		}
	}
	if o.Registerer == nil || o.Logger == nil {
		return errors.New("a registerer and a logger are needed")
	}
	return nil
}

// Supervisor runs the work dirs of one service.
type Supervisor struct {
	opt     Options
	metrics *Metrics
	dirs    []*WorkDir
	started time.Time
	hurry   chan struct{}
	once    sync.Once

	mu       sync.Mutex
	draining bool
}

// New takes the locks of all work dirs and opens their ledgers. A work dir that
// another service holds is *[BusyError]. When it fails nothing is left open.
func New(opt Options) (*Supervisor, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
	setDefault(&opt.DrainTimeout, DefaultDrainTimeout)
	s := &Supervisor{
		opt: opt, metrics: NewMetrics(opt.Registerer, opt.Version), started: time.Now(), hurry: make(chan struct{}),
	}
	for _, o := range opt.WorkDirs {
		w, err := openWorkDir(o, s.metrics, opt.Logger, opt.OnEvent)
		if err != nil {
			for _, open := range s.dirs {
				open.close()
			}
			return nil, err
		}
		s.dirs = append(s.dirs, w)
	}
	return s, nil
}

// Serve runs until ctx ends and everything has stopped. A work dir that cannot
// go on ends by itself with an error; the others run on.
func (s *Supervisor) Serve(ctx context.Context) error {
	watch := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		s.draining = true
		s.mu.Unlock()
	})
	defer watch()
	errs := make([]error, len(s.dirs))
	var dirs sync.WaitGroup
	for i, w := range s.dirs {
		dirs.Go(func() {
			if err := w.Serve(ctx, s.opt.DrainTimeout, s.hurry); err != nil {
				s.opt.Logger.Error("work dir ended", "workdir", w.opt.Name, "error", err)
				errs[i] = fmt.Errorf("work dir %q: %w", w.opt.Name, err)
			}
		})
	}
	dirs.Wait()
	return errors.Join(errs...)
}

// Hurry cuts a drain short: running turns are left for the next start.
func (s *Supervisor) Hurry() { s.once.Do(func() { close(s.hurry) }) }

// Status is a snapshot of everything.
func (s *Supervisor) Status() Status {
	s.mu.Lock()
	draining := s.draining
	s.mu.Unlock()
	st := Status{Version: s.opt.Version, PID: os.Getpid(), Started: s.started, Draining: draining}
	for _, w := range s.dirs {
		st.WorkDirs = append(st.WorkDirs, w.Status())
	}
	return st
}

// Ready says whether every work dir can answer an owner, and in words what keeps
// those that cannot, and what else is degraded.
func (s *Supervisor) Ready() (ok bool, problems []string) {
	ok = true
	for _, w := range s.Status().WorkDirs {
		if w.Child.State != ChildReady && w.Child.State != ChildDraining {
			ok = false
			problems = append(problems, strings.TrimSpace(fmt.Sprintf("%s: child is %s %s", w.Name, w.Child.State, w.Child.Reason)))
			continue
		}
		if !w.Guests.Confined {
			problems = append(problems, fmt.Sprintf("%s: degraded: guests are refused: %s (%s)", w.Name, w.Guests.Reason, w.Guests.Detail))
		}
	}
	return ok, problems
}

// Dir finds a work dir by name; an empty name is the only one there is.
func (s *Supervisor) Dir(name string) (*WorkDir, error) {
	if name == "" {
		if len(s.dirs) == 1 {
			return s.dirs[0], nil
		}
		return nil, &OperationError{Code: CodeAmbiguous, Message: "there is more than one work dir", Hint: "name one with --work"}
	}
	for _, w := range s.dirs {
		if w.opt.Name == name || w.opt.Path == name {
			return w, nil
		}
	}
	return nil, &OperationError{Code: CodeNotFound, Message: fmt.Sprintf("no work dir is called %q", name), Hint: "`codex-supervisor status` lists them"}
}
