// Package durable makes files that are whole or not there, and that stay
// there after a power cut.
//
// It owns the order of the steps: a temporary file in the same directory
// (dotted, and never ending in .txt, so that no reader of task and result
// files looks at it), its bytes synced, one atomic step to its name, the
// directory synced. It never decides what a file is called or what an
// existing one means.
package durable

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	tempPrefix = ".codex-supervisor-"
	tempSuffix = ".tmp"
)

// Create makes a new file and never replaces one: when the name is taken it
// returns an error that is fs.ErrExist and leaves the taken file as it is.
// The umask applies to perm.
func Create(path string, data []byte, perm fs.FileMode) error {
	return write(path, data, perm, place)
}

// Replace makes a file or replaces the one of that name.
func Replace(path string, data []byte, perm fs.FileMode) error {
	return write(path, data, perm, os.Rename)
}

// Sweep removes temporary files of this package that a crash left in dir,
// and returns how many. Nobody else may be writing there.
func Sweep(dir string) (int, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list %q: %w", dir, err)
	}
	var swept int
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if !entry.Type().IsRegular() || !strings.HasPrefix(name, tempPrefix) || !strings.HasSuffix(name, tempSuffix) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove leftover: %w", err))
			continue
		}
		swept++
	}
	return swept, errors.Join(errs...)
}

// write makes the temporary file and takes it to path with step. The
// temporary is gone afterwards, whatever happened.
func write(path string, data []byte, perm fs.FileMode, step func(from, to string) error) error {
	dir := filepath.Dir(path)
	temp := filepath.Join(dir, tempPrefix+rand.Text()+tempSuffix)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	// Close reports what a network file system could not store.
	err = errors.Join(err, f.Close())
	if err != nil {
		err = fmt.Errorf("write temporary file: %w", err)
	} else if err = step(temp, path); err != nil {
		err = fmt.Errorf("place %q: %w", path, err)
	}
	if rm := os.Remove(temp); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("remove temporary: %w", rm))
	}
	if err != nil {
		return err
	}
	return SyncDir(dir)
}

// place gives the temporary its name unless that is taken. A hard link is
// the portable way; file systems that have none are asked for a rename that
// does not replace.
func place(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || !cannotLink(err) {
		return err
	}
	return renameNoReplace(from, to)
}

func cannotLink(err error) bool {
	for _, no := range []error{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EMLINK} {
		if errors.Is(err, no) {
			return true
		}
	}
	return false
}

// SyncDir makes the names in dir durable. File systems that cannot sync a
// directory say EINVAL or ENOTSUP; they have no better offer.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open %q to sync it: %w", dir, err)
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("sync %q: %w", dir, err)
	}
	return nil
}
