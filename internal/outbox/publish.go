package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// unreadyGrace is how long a file that is in the way of a result, but is no
// result itself (empty, cut inside a character), is left to its writer.
const unreadyGrace = 30 * time.Second

var (
	// ErrEmpty is returned instead of publishing a text with nothing to show.
	// The poster would wait for ever for such a file to become ready.
	ErrEmpty = errors.New("reply is empty")
	// ErrOccupied is returned while the result's name is held by a file that
	// is not ready and was written just now. Try again later.
	ErrOccupied = errors.New("an unfinished result file is in the way")
)

// Receipt says how a Publish ended.
type Receipt struct {
	Already bool // a result of this id existed; nothing was written
	Bytes   int  // of the result that was written
	Cut     bool // the text was over the limit
}

// Publish renders text for tier and makes it the result of id. It renders
// the same text to the same bytes every time, so it can be repeated after a
// crash; a result that exists anywhere is not an error but Already.
//
// When an error comes after the file got its name (only the sync of the
// directory is left then), repeating the call reports Already.
func (s *Sink) Publish(id string, tier task.Tier, text string) (Receipt, error) {
	name, err := fileName(id)
	if err != nil {
		return Receipt{}, err
	}
	body, cut := render(tier, text, s.max, "replies/"+name)
	if !shows(body) {
		return Receipt{}, fmt.Errorf("publish %s: %w", id, ErrEmpty)
	}
	// The poster may have taken the result away before our ledger knew.
	switch _, done, err := s.Done(id); {
	case err != nil:
		return Receipt{}, fmt.Errorf("publish: %w", err)
	case done:
		return Receipt{Already: true}, nil
	}
	written := Receipt{Bytes: len(body), Cut: cut}
	path := filepath.Join(s.results, name)
	// The poster may run as another user, so the umask decides who reads.
	err = durable.Create(path, []byte(body), 0o666)
	if err == nil {
		return written, nil
	}
	if !errors.Is(err, fs.ErrExist) {
		return Receipt{}, fmt.Errorf("publish: %w", err)
	}
	ok, err := ready(path)
	if err != nil {
		return Receipt{}, fmt.Errorf("publish %s: look at the file in the way: %w", id, err)
	}
	if ok {
		return Receipt{Already: true}, nil
	}
	info, err := os.Lstat(path)
	if err == nil && time.Since(info.ModTime()) < unreadyGrace {
		err = ErrOccupied
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("publish %s: %w", id, err)
	}
	s.log.Warn("replacing a result file that never became ready", "task", id, "bytes", info.Size())
	if err := durable.Replace(path, []byte(body), 0o666); err != nil {
		return Receipt{}, fmt.Errorf("publish: %w", err)
	}
	return written, nil
}
