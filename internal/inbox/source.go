// Package inbox turns the files of a tasks directory into events, in order.
//
// A rescan at start, after lost notifications and every Options.Rescan is
// the truth; notifications of the file system are a hint that only makes it
// quicker. The package owns looking: it never moves, renames, deletes or
// rewrites a file in the directory (the gateway archives its own files), and
// its only write is Drop, which adds a new one. It knows nothing of Codex,
// of results or of what became of a task.
package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
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

// Options configure a Source. Zero durations, sizes and policies mean the
// defaults.
type Options struct {
	Dir      string // the tasks directory; may be missing for now
	KeyFile  string // the HMAC key; "" or a missing file means there is none
	Policy   task.Policy
	Rescan   time.Duration
	Settle   time.Duration
	MaxBytes int64 // at most task.MaxBytes
	Logger   *slog.Logger
}

// Source watches one tasks directory.
type Source struct {
	opts  Options
	log   *slog.Logger
	watch func(dir string) (watcher, error)
	open  func(path string) (*os.File, error)

	serving sync.Mutex // held by Serve
	mu      sync.Mutex
	proof   proof
}

// New checks the options and looks for the key; the directory is not touched.
func New(opts Options) (*Source, error) {
	if opts.Dir == "" {
		return nil, errors.New("open inbox: no tasks directory")
	}
	opts.Dir = filepath.Clean(opts.Dir) // notifications carry the clean path
	if opts.Rescan == 0 {
		opts.Rescan = DefaultRescan
	}
	if opts.Settle == 0 {
		opts.Settle = DefaultSettle
	}
	if opts.Rescan < 0 || opts.Settle < 0 {
		return nil, errors.New("open inbox: rescan and settle must be positive")
	}
	if opts.MaxBytes == 0 {
		opts.MaxBytes = task.MaxBytes
	}
	if opts.MaxBytes < 0 || opts.MaxBytes > task.MaxBytes {
		return nil, fmt.Errorf("open inbox: at most %d bytes of a task file can be read", task.MaxBytes)
	}
	if opts.Policy == "" {
		opts.Policy = task.PolicyAuto
	}
	if _, err := task.ParsePolicy(string(opts.Policy)); err != nil {
		return nil, fmt.Errorf("open inbox: %w", err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Source{opts: opts, log: opts.Logger, watch: watchDir, open: openFile}
	s.refresh()
	return s, nil
}

// Policy is the envelope policy in force, never PolicyAuto. It follows the
// key file with every scan.
func (s *Source) Policy() task.Policy {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proof.policy
}

// Read reads the file of a task once and parses those very bytes under the
// policy in force. The error is a *task.Rejection or comes from the file
// system; a task that has gone since it was queued is fs.ErrNotExist.
func (s *Source) Read(id string) (task.Task, error) {
	if err := checkID(id); err != nil {
		return task.Task{}, err
	}
	proof := s.refresh()
	got, err := s.read(id + ".txt")
	if errors.Is(err, errTooLarge) {
		return task.Task{ID: id, Tier: task.Guest}, s.tooLarge(got.stamp.Size)
	}
	if err != nil {
		return task.Task{}, fmt.Errorf("read task: %w", err)
	}
	return task.Parse(id, got.raw, proof.key, proof.policy)
}

// Drop adds a new task file, whole or not at all. A taken id is fs.ErrExist.
func (s *Source) Drop(id string, raw []byte) error {
	if err := checkID(id); err != nil {
		return err
	}
	// As readable as the umask allows: the poster reads the tier in it and
	// takes every file that it cannot read for a guest's.
	if err := durable.Create(filepath.Join(s.opts.Dir, id+".txt"), raw, 0o666); err != nil {
		return fmt.Errorf("drop task: %w", err)
	}
	return nil
}

// NewID returns a fresh id for Drop. The letter before the random part keeps
// it from being all digits: archives name results `<id>-<digits>`.
func NewID() string {
	return "task-" + time.Now().UTC().Format("20060102T150405") + "-x" + strings.ToLower(rand.Text()[:8])
}

func checkID(id string) error {
	if !task.ValidID(id) || task.OtherWorkers(id) {
		return &task.Rejection{Reason: reason.FileNameBad, Detail: fmt.Sprintf("%.140q is no task id", id)}
	}
	return nil
}

func (s *Source) tooLarge(size int64) *task.Rejection {
	return &task.Rejection{
		Reason: reason.FileTooLarge,
		Detail: fmt.Sprintf("%d bytes, at most %d are read", size, s.opts.MaxBytes),
	}
}

// Serve scans and watches until ctx ends, and calls emit from this one
// goroutine; while emit blocks, nothing is scanned. It may be called again
// afterwards and then tells everything anew. It returns nil when ctx ended.
func (s *Source) Serve(ctx context.Context, emit func(Event)) error {
	if !s.serving.TryLock() {
		return errors.New("serve inbox: already serving")
	}
	defer s.serving.Unlock()
	l := &loop{Source: s, emit: emit, files: make(map[string]*file), waiting: make(map[string]*file)}
	defer l.unwatch()
	l.run(ctx)
	return nil
}
