package outbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
)

// Keep stores the raw text of a reply durably: after it returns, a crash
// cannot lose the answer any more.
func (s *Sink) Keep(id, text string) error {
	name, err := fileName(id)
	if err != nil {
		return err
	}
	if err := durable.Replace(s.kept(name), []byte(text), 0o600); err != nil {
		return fmt.Errorf("keep reply: %w", err)
	}
	return nil
}

// Kept returns the text of the last Keep.
func (s *Sink) Kept(id string) (text string, ok bool, err error) {
	name, err := fileName(id)
	if err != nil {
		return "", false, err
	}
	f, err := os.OpenFile(s.kept(name), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read kept reply: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return "", false, fmt.Errorf("read kept reply: %w", err)
	}
	return string(raw), true, nil
}

// Forget removes the kept text. One that a power cut brings back does no
// harm: what is published is decided by the ledger.
func (s *Sink) Forget(id string) error {
	name, err := fileName(id)
	if err != nil {
		return err
	}
	if err := os.Remove(s.kept(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget reply: %w", err)
	}
	return nil
}
