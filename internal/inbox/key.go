package inbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// proof is what files are judged by.
type proof struct {
	key     task.Key
	policy  task.Policy // resolved
	epoch   uint64      // moves whenever one of the two does
	problem string      // why there is a key file but no key
}

// refresh reads the key file again: it is 64 bytes, and reading it is
// cheaper than being wrong about whether it changed. A file that is there
// but no good still resolves PolicyAuto to PolicyLayout: somebody stamps
// here, so a bare marker is no proof.
func (s *Source) refresh() proof {
	key, exists, err := readKey(s.opts.KeyFile)
	s.mu.Lock()
	defer s.mu.Unlock()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	policy := s.opts.Policy.Resolve(exists)
	if s.proof.epoch == 0 || !bytes.Equal(key, s.proof.key) || policy != s.proof.policy {
		s.proof.epoch++
		s.log.Info("envelope policy in force", "policy", string(policy), "has_key", key != nil)
	}
	if problem != "" && problem != s.proof.problem {
		s.log.Warn("the HMAC key cannot be used, stamped files stay unverifiable", "err", problem)
	}
	s.proof.key, s.proof.policy, s.proof.problem = key, policy, problem
	return s.proof
}

func readKey(path string) (key task.Key, exists bool, err error) {
	if path == "" {
		return nil, false, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, true, fmt.Errorf("read HMAC key: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, true, fmt.Errorf("read HMAC key: %q is no regular file", path)
	}
	// A key with much white space around it is still a key; nobody writes 4 KiB.
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return nil, true, fmt.Errorf("read HMAC key: %w", err)
	}
	key, err = task.ParseKey(text)
	return key, true, err
}
