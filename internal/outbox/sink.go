// Package outbox puts replies where the gateway looks for them.
//
// It owns the results directory's side of the protocol: what counts as done,
// how a result appears (whole, once, never empty, never over the limit), and
// what a non-owner's reply may not say to the poster. It never touches
// tasks, never reads a result back after publishing it, and knows nothing of
// Codex.
package outbox

import (
	"errors"
	"log/slog"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// DefaultMaxBytes keeps a result under the 48 KiB at which posters dead-letter.
const DefaultMaxBytes = 48 << 10

// Options configure a Sink.
type Options struct {
	Results  string // the results directory
	Replies  string // replies/ in the state dir
	MaxBytes int
	Logger   *slog.Logger
}

// Sink publishes replies of one work dir.
type Sink struct {
	opts Options
}

// Receipt says how a Publish ended.
type Receipt struct {
	Already bool // a result of this id existed; nothing was written
	Bytes   int
	Cut     bool // the text was over MaxBytes
}

// ErrEmpty is returned instead of publishing a text with nothing to show.
var ErrEmpty = errors.New("reply is empty")

// New makes both directories when they are missing.
func New(opts Options) (*Sink, error) { return &Sink{opts: opts}, nil }

// Done reports whether a result for id exists anywhere, and where.
func (s *Sink) Done(id string) (where string, done bool, err error) {
	return "", false, errors.ErrUnsupported
}

// Undelivered reports whether a result of id was quarantined by the poster.
func (s *Sink) Undelivered(id string) (bool, error) { return false, errors.ErrUnsupported }

// Keep stores the raw text of a reply durably.
func (s *Sink) Keep(id, text string) error { return errors.ErrUnsupported }

// Kept returns what Keep stored.
func (s *Sink) Kept(id string) (text string, ok bool, err error) {
	return "", false, errors.ErrUnsupported
}

// Forget removes what Keep stored.
func (s *Sink) Forget(id string) error { return errors.ErrUnsupported }

// Publish renders text for tier and makes it the result of id.
func (s *Sink) Publish(id string, tier task.Tier, text string) (Receipt, error) {
	return Receipt{}, errors.ErrUnsupported
}

// SweepTemps removes temporary files that an earlier run left behind.
func (s *Sink) SweepTemps() (int, error) { return 0, errors.ErrUnsupported }

// Render is the text of a result.
func Render(tier task.Tier, text string, max int, fullCopy string) string { return text }
