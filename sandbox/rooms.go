package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// Defaults of [Limits].
const (
	DefaultMaxAttachments = 20
	DefaultMaxFileBytes   = 25 << 20 // what the gateways deliver at most
	DefaultMaxRoomBytes   = 100 << 20
	// DefaultMaxPixels bounds a picture. One of 20000 x 20000 pixels in 1.1 MB
	// cost the app-server 1.8 GB (codex app-server 0.171.0, measured); this is
	// room for any camera's picture at about 4 bytes a pixel.
	DefaultMaxPixels = 50 << 20
)

// attachmentsDir keeps attachments out of the room's own level, where a file
// called AGENTS.md would become instructions.
const attachmentsDir = "attachments"

// Limits bound what a message can bring into a room. Zero values mean the
// defaults.
type Limits struct {
	Attachments         int
	FileBytes, RoomByte int64
	Pixels              int64
}

func (l Limits) withDefaults() Limits {
	if l.Attachments == 0 {
		l.Attachments = DefaultMaxAttachments
	}
	if l.FileBytes == 0 {
		l.FileBytes = DefaultMaxFileBytes
	}
	if l.RoomByte == 0 {
		l.RoomByte = DefaultMaxRoomBytes
	}
	if l.Pixels == 0 {
		l.Pixels = DefaultMaxPixels
	}
	return l
}

// Rooms is the directory in which rooms are made. Room names are random: a
// guest that could guess one would still not see it, but the name is also shown
// in the prompt and must tell nothing.
type Rooms struct {
	dir    string
	limits Limits
}

// Room is a fresh directory for one turn. Files and Images are absolute paths;
// every image is also a file.
type Room struct {
	Dir    string
	Files  []string
	Images []string
}

// Refusal says why one attachment, counted from 1, was not taken. It holds no
// text of the sender's.
type Refusal struct {
	N   int
	Why string
}

// AttachmentError lists the attachments that were refused. Nothing of the task
// is left then, and nothing of it may be run.
type AttachmentError struct{ Refusals []Refusal }

// Error implements error.
func (e *AttachmentError) Error() string {
	parts := make([]string, 0, len(e.Refusals))
	for _, r := range e.Refusals {
		parts = append(parts, fmt.Sprintf("attachment %d %s", r.N, r.Why))
	}
	return strings.Join(parts, "; ")
}

// OpenRooms makes dir, 0700, where it is missing.
func OpenRooms(dir string, limits Limits) (*Rooms, error) {
	if err := privateDir(dir); err != nil {
		return nil, fmt.Errorf("open rooms: %w", err)
	}
	return &Rooms{dir: filepath.Clean(dir), limits: limits.withDefaults()}, nil
}

// privateDir makes a directory that only we may enter, and closes an old one.
func privateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("is not a directory of its own")}
	}
	if info.Mode().Perm() != 0o700 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// Create makes a room and copies the attachments into it. The error is an
// [*AttachmentError] when at least one was refused; the room is gone then.
func (r *Rooms) Create(ctx context.Context, attachments []task.Attachment, roots []string) (Room, error) {
	room := Room{Dir: filepath.Join(r.dir, randomHex())}
	if err := os.Mkdir(room.Dir, 0o700); err != nil {
		return Room{}, fmt.Errorf("make room: %w", err)
	}
	if err := r.fill(ctx, &room, attachments, roots); err != nil {
		return Room{}, errors.Join(err, r.Remove(room))
	}
	return room, nil
}

func (r *Rooms) fill(ctx context.Context, room *Room, attachments []task.Attachment, roots []string) error {
	if len(attachments) == 0 {
		return nil
	}
	if len(attachments) > r.limits.Attachments {
		return &AttachmentError{[]Refusal{{r.limits.Attachments + 1, fmt.Sprintf("is more than the %d that are taken", r.limits.Attachments)}}}
	}
	dir := filepath.Join(room.Dir, attachmentsDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("make attachments dir: %w", err)
	}
	left := r.limits.RoomByte
	var refused []Refusal
	for i, a := range attachments {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("copy attachments: %w", context.Cause(ctx))
		}
		got, why, err := r.take(ctx, dir, i+1, a, roots, left)
		switch {
		case err != nil:
			return fmt.Errorf("copy attachment %d: %w", i+1, err)
		case why != "":
			refused = append(refused, Refusal{i + 1, why})
			continue
		}
		left -= got.bytes
		room.Files = append(room.Files, got.path)
		if got.picture {
			room.Images = append(room.Images, got.path)
		}
	}
	if len(refused) > 0 {
		return &AttachmentError{refused}
	}
	return nil
}

// Remove deletes a room, directories that its files made read-only included.
// It touches nothing but a direct child of the rooms' directory.
func (r *Rooms) Remove(room Room) error {
	dir := filepath.Clean(room.Dir)
	if filepath.Dir(dir) != r.dir {
		return fmt.Errorf("remove room: %q is no room of %s", room.Dir, r.dir)
	}
	if err := r.remove(filepath.Base(dir)); err != nil {
		return fmt.Errorf("remove room: %w", err)
	}
	return nil
}

// remove works through a root on the rooms' directory, so that no symlink that
// lies in a room is ever followed out of it.
func (r *Rooms) remove(name string) error {
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	err = root.RemoveAll(name)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	// A directory without write permission keeps its entries. Opened one after
	// the other from the top, since a closed one hides those below.
	if err := openUp(root, name); err != nil {
		return err
	}
	return root.RemoveAll(name)
}

func openUp(root *os.Root, name string) error {
	info, err := root.Lstat(name)
	if err != nil || !info.IsDir() {
		return err
	}
	if info.Mode().Perm()&0o700 != 0o700 {
		if err := root.Chmod(name, 0o700); err != nil {
			return err
		}
	}
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	entries, err := dir.ReadDir(-1)
	_ = dir.Close() // was only read
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if err := openUp(root, filepath.Join(name, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// Sweep removes everything below the rooms' directory but the rooms in keep
// (their Dir), and returns how many it removed. It is for boot, when no turn
// runs yet.
func (r *Rooms) Sweep(keep ...string) (int, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		return 0, fmt.Errorf("sweep rooms: %w", err)
	}
	kept := map[string]bool{}
	for _, dir := range keep {
		kept[filepath.Base(dir)] = true
	}
	removed := 0
	var errs []error
	for _, entry := range entries {
		if kept[entry.Name()] {
			continue
		}
		if err := r.remove(entry.Name()); err != nil {
			errs = append(errs, fmt.Errorf("sweep rooms: %w", err))
			continue
		}
		removed++
	}
	return removed, errors.Join(errs...)
}
