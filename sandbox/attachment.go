package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// taken is an attachment that lies in the room.
type taken struct {
	path    string
	bytes   int64
	picture bool // Codex may be given it as a localImage
}

// take copies one attachment as bytes under a neutral name. why is the refusal;
// err is trouble of ours.
func (r *Rooms) take(ctx context.Context, dir string, n int, a task.Attachment, roots []string, left int64) (got taken, why string, err error) {
	src, why := openUnder(a.Locator, roots)
	if why != "" {
		return taken{}, why, nil
	}
	defer src.Close()
	limit := min(left, r.limits.FileBytes)
	got.path = filepath.Join(dir, fmt.Sprintf("attachment-%d%s", n, extension(a)))
	dst, err := os.OpenFile(got.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return taken{}, "", err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	sum := sha256.New()
	// One byte over the limit is read to learn that the file is larger; its
	// size as stat shows it may have changed since.
	got.bytes, err = io.Copy(io.MultiWriter(dst, sum), io.LimitReader(contextReader{ctx, src}, limit+1))
	switch {
	case err != nil:
		return taken{}, "", err
	case got.bytes > limit:
		return taken{}, fmt.Sprintf("is larger than the %d bytes that are left for it", limit), nil
	case a.SHA256 != "" && !strings.EqualFold(strings.TrimPrefix(a.SHA256, "sha256:"), hex.EncodeToString(sum.Sum(nil))):
		return taken{}, "does not have the digest that its message gives", nil
	}
	if _, err := dst.Seek(0, io.SeekStart); err != nil {
		return taken{}, "", err
	}
	got.picture, why = checkPicture(dst, r.limits.Pixels)
	if why != "" {
		return taken{}, why, nil
	}
	// Nobody has to change it any more.
	return got, "", dst.Chmod(0o400)
}

// contextReader ends a copy when its context does.
type contextReader struct {
	ctx context.Context // of the one Copy that this reader is made for
	io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// openUnder opens a locator for reading if it is a regular file below one of
// the roots, with no symlink on the way. The reason is plain and names neither
// the path nor anything else of the sender's.
func openUnder(locator string, roots []string) (*os.File, string) {
	path := strings.TrimPrefix(locator, "file://")
	switch {
	case path == "" || !filepath.IsAbs(path):
		return nil, "is not given as a file of this machine"
	case strings.ContainsRune(path, 0):
		return nil, "has no usable path"
	}
	for _, part := range strings.Split(path, "/") {
		if part == ".." {
			return nil, "has a path with .. in it"
		}
	}
	path = filepath.Clean(path)
	for _, root := range roots {
		root = filepath.Clean(root)
		for _, spelling := range []string{root, resolve(root)} {
			rel, err := filepath.Rel(spelling, path)
			if err != nil || rel == "." || !filepath.IsLocal(rel) {
				continue
			}
			return openBelow(spelling, strings.Split(rel, string(os.PathSeparator)))
		}
	}
	return nil, "lies in none of the attachment roots"
}

// openBelow walks down from root one component at a time. os.Root keeps every
// step below root; comparing what was looked at with what was opened keeps a
// symlink out even when it is put there in between.
func openBelow(root string, parts []string) (*os.File, string) {
	const (
		missing = "cannot be opened"
		linked  = "is reached through a symlink"
		changed = "changed while it was opened"
	)
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, missing
	}
	defer func() { _ = dir.Close() }()
	for _, part := range parts[:len(parts)-1] {
		looked, err := dir.Lstat(part)
		switch {
		case err != nil:
			return nil, missing
		case looked.Mode()&fs.ModeSymlink != 0:
			return nil, linked
		case !looked.IsDir():
			return nil, missing
		}
		next, err := dir.OpenRoot(part)
		if err != nil {
			return nil, missing
		}
		opened, err := next.Stat(".")
		if err != nil || !os.SameFile(looked, opened) {
			_ = next.Close()
			return nil, changed
		}
		_ = dir.Close()
		dir = next
	}
	name := parts[len(parts)-1]
	looked, err := dir.Lstat(name)
	switch {
	case err != nil:
		return nil, missing
	case looked.Mode()&fs.ModeSymlink != 0:
		return nil, linked
	case !looked.Mode().IsRegular():
		return nil, "is not a regular file"
	}
	// O_NONBLOCK: should a FIFO have taken the file's place, open must not wait
	// for its other end.
	file, err := dir.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, missing
	}
	opened, err := file.Stat()
	if err != nil || !opened.Mode().IsRegular() || !os.SameFile(looked, opened) {
		_ = file.Close()
		return nil, changed
	}
	return file, ""
}

// extension is the kind of file that a neutral name keeps, from the sender's
// file name or else the locator: up to 8 letters and digits.
func extension(a task.Attachment) string {
	for _, name := range []string{a.Filename, a.Locator} {
		ext := strings.ToLower(filepath.Ext(name))
		if len(ext) < 2 || len(ext) > 9 {
			continue
		}
		if strings.IndexFunc(ext[1:], func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) < 0 {
			return ext
		}
	}
	return ".bin"
}
