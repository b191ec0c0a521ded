// Package outbox puts replies where the gateway looks for them.
//
// It owns the results directory's side of the protocol: what counts as done,
// how a result appears (whole, once, never empty, never over the limit), and
// what a non-owner's reply may not say to the poster. It also keeps the raw
// text of replies in the state dir until nobody needs it. It never touches
// task files, never makes a result again because it is gone (the poster
// takes results away within a second), and knows nothing of Codex.
package outbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

const (
	// DefaultMaxBytes keeps a result within the 48 KiB above which posters
	// put bodies aside instead of posting them.
	DefaultMaxBytes = 48 << 10
	// MinMaxBytes leaves room for the note that a cut text ends with.
	MinMaxBytes = 1 << 10
)

// Options configure a Sink.
type Options struct {
	Results  string // the results directory
	Replies  string // replies/ in the state dir
	MaxBytes int    // of a result; 0 means DefaultMaxBytes
	Logger   *slog.Logger
}

// Sink publishes the replies of one work dir. Its methods may be called from
// several goroutines.
type Sink struct {
	results, replies string
	max              int
	log              *slog.Logger

	mu         sync.Mutex
	listings   map[string]listing // by directory
	days       []string           // day archives, as listed at daysListed
	daysListed time.Time
	now        func() time.Time // for the age of listings
}

// New makes both directories when they are missing.
func New(opts Options) (*Sink, error) {
	if opts.Results == "" || opts.Replies == "" {
		return nil, errors.New("open outbox: results and replies directories are both needed")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	if opts.MaxBytes < MinMaxBytes {
		return nil, fmt.Errorf("open outbox: max_result_bytes is %d, at least %d is needed", opts.MaxBytes, MinMaxBytes)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(opts.Results, 0o755); err != nil {
		return nil, fmt.Errorf("make results directory: %w", err)
	}
	if err := os.MkdirAll(opts.Replies, 0o700); err != nil {
		return nil, fmt.Errorf("make replies directory: %w", err)
	}
	return &Sink{
		results: opts.Results, replies: opts.Replies, max: opts.MaxBytes, log: opts.Logger,
		listings: make(map[string]listing), now: time.Now,
	}, nil
}

// SweepTemps removes the temporary files that a killed run left in results
// and replies. It is for boot, when nobody publishes.
func (s *Sink) SweepTemps() (int, error) {
	inResults, err := durable.Sweep(s.results)
	inReplies, err2 := durable.Sweep(s.replies)
	return inResults + inReplies, errors.Join(err, err2)
}

// Unwritable reports whether err means that the file system takes no more
// data for now: full, over quota or read-only. That heals without us.
func Unwritable(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// fileName is the name of id's result and of its kept text. Ids that cannot
// be names are refused here, so that none of them leaves its directory.
func fileName(id string) (string, error) {
	if !task.ValidID(id) {
		return "", fmt.Errorf("name result: %.140q is no task id", id)
	}
	return id + ".txt", nil
}

// path of the kept text of id.
func (s *Sink) kept(name string) string { return filepath.Join(s.replies, name) }
