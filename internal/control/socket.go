package control

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// InUseError says that another service answers at a socket.
type InUseError struct {
	Path string
	PID  int // 0 = not known
}

func (e *InUseError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("control socket %q belongs to another codex-supervisor", e.Path)
	}
	return fmt.Sprintf("control socket %q belongs to another codex-supervisor (pid %d)", e.Path, e.PID)
}

// socketMode and dirMode let nobody but the owner in.
const (
	socketMode = 0o600
	dirMode    = 0o700
)

// probeTimeout is how long a socket that is there may take to accept.
const probeTimeout = time.Second

// ownedSocket is a listener that admits only connections of our own user and
// root, and the lock that makes the path ours. The lock is the kernel's, so a
// socket file that a killed service left is known to be stale without guessing;
// a listener that took no lock is recognised by answering.
type ownedSocket struct {
	*net.UnixListener
	lock *flock.Flock
	log  *slog.Logger
}

func listenUnix(path string, log *slog.Logger) (*ownedSocket, error) {
	if err := ownDir(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock := flock.New(path+".lock", flock.SetPermissions(socketMode))
	switch ok, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("lock control socket: %w", err)
	case !ok:
		return nil, &InUseError{Path: path, PID: lockHolder(path + ".lock")}
	}
	l, err := bind(path)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	// Only for the message of a second service; the lock is what counts.
	if err := os.WriteFile(path+".lock", []byte(strconv.Itoa(os.Getpid())+"\n"), socketMode); err != nil {
		log.Warn("pid not written beside control socket", "error", err)
	}
	return &ownedSocket{UnixListener: l, lock: lock, log: log}, nil
}

// bind takes the path over from a dead listener, never from a live one.
func bind(path string) (*net.UnixListener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("look at control socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("control socket %q: a file that is no socket is in the way", path)
	default:
		if c, err := net.DialTimeout("unix", path, probeTimeout); err == nil {
			_ = c.Close()
			return nil, &InUseError{Path: path}
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("remove stale control socket: %w", err)
		}
	}
	// The mode has to be right from the first moment: between bind and chmod
	// anybody could connect. The mask is the process's, and at this time of its
	// life nothing else creates files.
	old := syscall.Umask(0o777 &^ socketMode)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	syscall.Umask(old)
	if err != nil {
		return nil, fmt.Errorf("listen on control socket: %w", err)
	}
	return l, nil
}

// ownDir makes the socket's directory, or checks that nobody else could put a
// socket of their own in place of ours.
func ownDir(dir string) error {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return fmt.Errorf("make directory of control socket: %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at directory of control socket: %w", err)
	}
	if uid, ok := ownerOf(info); ok && uid != os.Geteuid() {
		return fmt.Errorf("directory of control socket %q belongs to uid %d, not to us: %w", dir, uid, fs.ErrPermission)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("directory of control socket %q may be written by others (mode %04o): %w", dir, mode, fs.ErrPermission)
	}
	return nil
}

func ownerOf(info fs.FileInfo) (int, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

func lockHolder(path string) int {
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

// Accept admits our own user and root.
func (s *ownedSocket) Accept() (net.Conn, error) {
	for {
		c, err := s.AcceptUnix()
		if err != nil {
			return nil, err
		}
		uid, err := peerUID(c)
		if err == nil && (uid == os.Geteuid() || uid == 0) {
			return c, nil
		}
		s.log.Warn("control connection refused", "uid", uid, "error", err)
		_ = c.Close()
	}
}

// Close removes the socket and only then lets another service have the path.
func (s *ownedSocket) Close() error {
	err := s.UnixListener.Close()
	_ = s.lock.Close()
	return err
}
