// Package inbox turns the files of a tasks directory into events, in order.
//
// A rescan at start, after lost events and every Options.Rescan is the
// truth; file system notifications are a hint that only makes it quicker.
// The package owns looking: it never moves, renames, deletes or rewrites a
// file in the directory (the gateway archives its own files), and its only
// write is Drop, which adds a new one. It knows nothing of Codex, of results
// or of what became of a task.
package inbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// Defaults of Options.
const (
	// DefaultRescan bounds how late a file is seen when a notification was lost.
	DefaultRescan = 30 * time.Second
	// DefaultSettle is how long an unfinished file must stay unchanged before
	// it is refused: writers that do not rename need milliseconds.
	DefaultSettle = 2 * time.Second
)

// Options configure a Source.
type Options struct {
	Dir      string // the tasks directory; may be missing for now
	KeyFile  string // the HMAC key; "" when there is none
	Policy   task.Policy
	Rescan   time.Duration
	Settle   time.Duration
	MaxBytes int64
	Logger   *slog.Logger
}

// Source watches one tasks directory.
type Source struct {
	opts Options
}

// New checks the options; it does not touch the directory.
func New(opts Options) (*Source, error) {
	return &Source{opts: opts}, nil
}

// Serve scans and watches until ctx ends, and calls emit from one goroutine.
func (s *Source) Serve(ctx context.Context, emit func(Event)) error { return errors.ErrUnsupported }

// Policy is the envelope policy in force: never PolicyAuto.
func (s *Source) Policy() task.Policy { return s.opts.Policy.Resolve(false) }

// Read reads the file of a task once and parses those bytes.
func (s *Source) Read(id string) (task.Task, error) { return task.Task{}, errors.ErrUnsupported }

// Drop adds a new task file, whole or not at all.
func (s *Source) Drop(id string, raw []byte) error { return errors.ErrUnsupported }

// NewID returns a fresh id for Drop.
func NewID() string { return "" }
