package supervisor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
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
// work dir. Its locks are the kernel's, so they end with the process, however
// that ends. They lie on the directories themselves: a lock file in a work dir
// could be removed, or made a link to something else, by an owner's turn.
type instanceLock struct {
	file *flock.Flock // in the state dir; holds the pid, which is only for the message
	dirs []*os.File
}

// lockName is the lock file in a state dir, where no turn may write.
const lockName = "supervisor.lock"

// lockPatience is how long a lock is tried for. A service that was killed while
// it was starting a child leaves the lock to the forked process for the moment
// until that executes its program (seen under random kills).
const lockPatience = time.Second

// lockDirs locks the state dir, and the work, task and result dirs: two services
// with different state dirs must not share an inbox.
func lockDirs(opt WorkDirOptions) (l *instanceLock, err error) {
	l = &instanceLock{}
	taken := l
	defer func() {
		if err != nil {
			taken.release()
		}
	}()
	path := filepath.Join(opt.State, lockName)
	if err := plainFile(path); err != nil {
		return nil, err
	}
	f := flock.New(path)
	if err := tryLock(f.TryLock); err != nil {
		return nil, lockError(err, opt.Path, path, holder(path))
	}
	l.file = f
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, fmt.Errorf("write %q: %w", path, err)
	}
	var seen []os.FileInfo
	for _, dir := range []string{opt.Path, opt.Tasks, opt.Results} {
		d, err := os.Open(dir)
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", dir, err)
		}
		l.dirs = append(l.dirs, d)
		info, err := d.Stat()
		if err != nil {
			return nil, fmt.Errorf("lock %q: %w", dir, err)
		}
		if slices.ContainsFunc(seen, func(other os.FileInfo) bool { return os.SameFile(info, other) }) {
			continue // locked already, under another name
		}
		seen = append(seen, info)
		err = tryLock(func() (bool, error) {
			err := syscall.Flock(int(d.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
			if errors.Is(err, syscall.EWOULDBLOCK) {
				return false, nil
			}
			return err == nil, err
		})
		if err != nil {
			return nil, lockError(err, opt.Path, dir, proc.LockHolder(dir))
		}
	}
	return l, nil
}

// plainFile refuses what a lock file must not be: a link leads the pid elsewhere,
// and a FIFO would be waited for.
func plainFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at lock %q: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("lock %q is no plain file; remove it", path)
	}
	return nil
}

var errHeld = errors.New("held by another process")

// tryLock tries for lockPatience.
func tryLock(try func() (bool, error)) error {
	for deadline := time.Now().Add(lockPatience); ; {
		switch ok, err := try(); {
		case err != nil:
			return err
		case ok:
			return nil
		case time.Now().After(deadline):
			return errHeld
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func lockError(err error, work, path string, pid int) error {
	if errors.Is(err, errHeld) {
		return &BusyError{WorkDir: work, PID: pid}
	}
	return fmt.Errorf("lock %q: %w", path, err)
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

// release gives the locks up. The file stays: removing a lock file lets two
// processes hold "the" lock on two different inodes.
func (l *instanceLock) release() {
	if l.file != nil {
		_ = l.file.Close()
	}
	for _, d := range l.dirs {
		_ = d.Close()
	}
	l.file, l.dirs = nil, nil
}
