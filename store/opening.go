package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
)

// DamagedError is a ledger that cannot be trusted. Nothing was changed.
type DamagedError struct {
	Path string
	Why  string
}

func (e *DamagedError) Error() string { return fmt.Sprintf("ledger %q is damaged: %s", e.Path, e.Why) }

// opening is one try to open the file. bbolt asks it for the file, so that the
// look at it happens under the very lock that bbolt then works under: flock
// belongs to the open file, and taking it a second time is no wait. A look
// without the lock could meet another process in the middle of a write.
type opening struct {
	path     string
	wait     time.Duration
	readOnly bool
	file     *os.File
}

// open is bbolt's OpenFile, called once for each try.
func (o *opening) open(name string, flag int, perm fs.FileMode) (*os.File, error) {
	expected, err := marked(o.path)
	if err != nil {
		return nil, err
	}
	if expected {
		flag &^= os.O_CREATE
	}
	f, err := os.OpenFile(name, flag, perm)
	if errors.Is(err, fs.ErrNotExist) && expected {
		return nil, &DamagedError{Path: o.path, Why: "the file is gone, though " + markerPath(o.path) + " says that there was one"}
	}
	if err != nil {
		return nil, err
	}
	torn, err := o.look(f)
	switch {
	case err == nil:
		o.file = f
		return f, nil
	case torn:
		// A first start that was cut off in the middle of making the file. It was
		// never open, so nothing in it was ever acknowledged.
		err = os.Rename(o.path, o.path+".torn")
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("put a torn file aside: %w", err)
		}
		return o.open(name, flag, perm)
	default:
		return nil, errors.Join(err, f.Close())
	}
}

// look locks the file and refuses what bbolt would take for a new database, or
// crash on. torn means that it may be made anew.
func (o *opening) look(f *os.File) (torn bool, err error) {
	if err := o.lock(f); err != nil {
		return false, err
	}
	expected, err := marked(o.path) // again: whoever had the lock may have made both
	if err != nil {
		return false, err
	}
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("look at ledger: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 && !o.readOnly {
		if err := f.Chmod(0o600); err != nil {
			return false, fmt.Errorf("close ledger to others: %w", err)
		}
	}
	switch {
	case info.Size() > 0:
		damage := inspectPages(o.path, f, info.Size())
		return damage != nil && !expected && !o.readOnly && info.Size() < 4*int64(os.Getpagesize()), damage
	case expected:
		return false, &DamagedError{Path: o.path, Why: "the file is empty, though " + markerPath(o.path) + " says that there was a ledger"}
	case o.readOnly:
		return false, fmt.Errorf("nothing was ever written to it: %w", fs.ErrNotExist)
	default:
		return false, nil
	}
}

// lockPoll is how often the lock is tried for.
const lockPoll = 20 * time.Millisecond

func (o *opening) lock(f *os.File) error {
	how := syscall.LOCK_EX
	if o.readOnly {
		how = syscall.LOCK_SH
	}
	for deadline := time.Now().Add(o.wait); ; {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return fmt.Errorf("lock ledger: %w", err)
		case time.Now().After(deadline):
			return ErrLocked
		default:
			time.Sleep(lockPoll)
		}
	}
}

// release gives the file back when bbolt cannot: its own locks may be held for
// good, and its mapping of the file would hold the file's lock until we exit.
func (o *opening) release() {
	if o.file != nil {
		_ = syscall.Flock(int(o.file.Fd()), syscall.LOCK_UN)
		_ = o.file.Close()
	}
}

// markerPath is a file beside the ledger that says that there must be one.
func markerPath(path string) string { return path + ".exists" }

func marked(path string) (bool, error) {
	_, err := os.Stat(markerPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for the ledger's marker: %w", err)
	}
	return true, nil
}

// mark leaves word that there is a ledger, outside the ledger. It also makes the
// ledger's own name durable, which bbolt does not.
func mark(path string) error {
	if there, err := marked(path); err != nil || there {
		return err
	}
	err := durable.Create(markerPath(path), []byte("A ledger must lie beside this file. Remove both to start without any memory.\n"), 0o600)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("mark ledger: %w", err)
	}
	return nil
}

// Layout of a meta page of bbolt v1.5.0 (internal/common/page.go, meta.go):
// 16 bytes of page header, then magic, version, page size and flags (4 bytes
// each), root bucket (16), freelist page, high water mark, transaction and
// FNV-64a of all before it (8 each).
const (
	boltMagic    = 0xED0CDAED
	metaStart    = 16
	metaSize     = 64
	metaPageSize = 8
	metaHigh     = 40
	metaSum      = 56
)

// inspectPages compares what the meta pages promise with the size of the file.
func inspectPages(path string, f io.ReaderAt, size int64) error {
	whole := false
	judge := func(at int64) (page int64, err error) {
		meta, ok := readMeta(f, at)
		if !ok {
			return 0, nil
		}
		whole = true
		page = int64(binary.LittleEndian.Uint32(meta[metaPageSize:]))
		pages := binary.LittleEndian.Uint64(meta[metaHigh:])
		if page <= 0 || pages > uint64(size/page) {
			return 0, &DamagedError{Path: path, Why: fmt.Sprintf("it is cut off: %d bytes are there of %d pages of %d", size, pages, page)}
		}
		return page, nil
	}
	page, err := judge(0)
	if err != nil {
		return err
	}
	// Where the first is torn the page size is not known, and the second may
	// stand at any power of two; bbolt looks for it in the same way.
	from, to := int64(1024), int64(1024<<14)
	if page != 0 {
		from, to = page, page
	}
	for at := from; at <= to && at < size; at *= 2 {
		if _, err := judge(at); err != nil {
			return err
		}
	}
	if !whole {
		return &DamagedError{Path: path, Why: fmt.Sprintf("no sound head page in its %d bytes", size)}
	}
	return nil
}

// readMeta returns the meta page that begins at an offset, if it is sound.
func readMeta(f io.ReaderAt, at int64) ([]byte, bool) {
	meta := make([]byte, metaSize)
	if _, err := f.ReadAt(meta, at+metaStart); err != nil || binary.LittleEndian.Uint32(meta) != boltMagic {
		return nil, false
	}
	sum := fnv.New64a()
	_, _ = sum.Write(meta[:metaSum])
	return meta, sum.Sum64() == binary.LittleEndian.Uint64(meta[metaSum:])
}
