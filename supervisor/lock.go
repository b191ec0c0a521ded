package supervisor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// BusyError says that another service holds a work dir.
type BusyError struct {
	WorkDir string
	PID     int // 0 = not known
}

func (e *BusyError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("work dir %q is held by another codex-supervisor", e.WorkDir)
	}
	return fmt.Sprintf("work dir %q is held by another codex-supervisor (pid %d)", e.WorkDir, e.PID)
}

// instanceLock is the proof that this process is the only one that serves a
// work dir. It is a lock of the kernel's on a file, so it ends with the process,
// however that ends; the pid inside is only for the message.
type instanceLock struct {
	locks []*flock.Flock
}

// lockName is the lock's file in a state dir, and, dotted, in a tasks dir's
// parent: two services with different state dirs must not share an inbox.
const lockName = "supervisor.lock"

// lockPatience is how long a lock is tried for. A service that was killed while
// it was starting a child leaves the lock to the forked process for the moment
// until that executes its program (seen under random kills).
const lockPatience = time.Second

// lockState locks the state dir and the work dir.
func lockState(state, work string) (*instanceLock, error) {
	l := &instanceLock{}
	for _, path := range []string{filepath.Join(state, lockName), filepath.Join(work, ".codex-"+lockName)} {
		f := flock.New(path)
		ctx, cancel := context.WithTimeout(context.Background(), lockPatience)
		ok, err := f.TryLockContext(ctx, 20*time.Millisecond)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			l.release()
			return nil, fmt.Errorf("lock %q: %w", path, err)
		}
		if !ok {
			l.release()
			return nil, &BusyError{WorkDir: work, PID: holder(path)}
		}
		l.locks = append(l.locks, f)
		if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
			l.release()
			return nil, fmt.Errorf("write %q: %w", path, err)
		}
	}
	return l, nil
}

func holder(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}

// release gives the locks up. The files stay: removing a lock file lets two
// processes hold "the" lock on two different inodes.
func (l *instanceLock) release() {
	for _, f := range l.locks {
		_ = f.Close()
	}
	l.locks = nil
}
