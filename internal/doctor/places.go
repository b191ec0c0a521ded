package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tryPrefix begins the name of everything that is made for a moment. A leading
// dot keeps it from gateways and from the inbox.
const tryPrefix = ".codex-supervisor-doctor-"

// place is a directory of a work dir.
type place struct{ name, path string }

func places(w WorkDir) []place {
	return []place{{"tasks", w.Tasks}, {"results", w.Results}, {"state", w.State}}
}

// existing is the nearest directory above path, itself included, that is there.
func existing(path string) (string, error) {
	for {
		info, err := os.Stat(path)
		switch {
		case err == nil && !info.IsDir():
			return "", &fs.PathError{Op: "use", Path: path, Err: syscall.ENOTDIR}
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path):
			return "", err
		}
		path = filepath.Dir(path)
	}
}

// tryFile makes a file in dir, and removes it. made is its time as the file
// system has it.
func tryFile(dir string) (made time.Time, err error) {
	f, err := os.CreateTemp(dir, tryPrefix)
	if err != nil {
		return made, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	if _, err := f.WriteString("doctor\n"); err != nil {
		return made, err
	}
	if err := f.Sync(); err != nil {
		return made, err
	}
	info, err := f.Stat()
	if err != nil {
		return made, err
	}
	return info.ModTime(), nil
}

// writable makes and removes a file in each directory. What a mode says is not
// what a file system does: read-only mounts, quotas and full disks show here.
func (d *doctor) writable(w WorkDir) Check {
	if info, err := os.Stat(w.Path); errors.Is(err, fs.ErrNotExist) {
		return fail(DirsWritable, "mkdir -p "+w.Path, "the work dir %s does not exist", w.Path)
	} else if err != nil {
		return fail(DirsWritable, "check who may enter its directories", "work dir: %s", plain(err))
	} else if !info.IsDir() {
		return fail(DirsWritable, "name a directory by --work", "the work dir %s is no directory", w.Path)
	}
	var missing, foreign []string
	for _, p := range places(w) {
		dir, err := existing(p.path)
		if err == nil {
			_, err = tryFile(dir)
		}
		switch {
		case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
			return fail(DirsWritable, "make room on the disk", "%s: %s", p.name, plain(err))
		case errors.Is(err, syscall.EROFS):
			return fail(DirsWritable, "mount it writable (a service unit: ReadWritePaths=), or put it elsewhere by --"+p.name, "%s: %s", p.name, plain(err))
		case err != nil:
			return fail(DirsWritable, fmt.Sprintf("chown it to the service's user (uid %d here), or put it elsewhere by --%s", d.UID, p.name), "%s: %s", p.name, plain(err))
		case dir != p.path:
			missing = append(missing, p.name)
		}
		if info, err := os.Stat(dir); err == nil && d.UID == 0 {
			if st, is := info.Sys().(*syscall.Stat_t); is && st.Uid != 0 {
				foreign = append(foreign, fmt.Sprintf("%s (uid %d)", p.name, st.Uid))
			}
		}
	}
	if len(foreign) > 0 {
		return warn(DirsWritable, "run doctor as the service's user: sudo -u USER codex-supervisor doctor", "written as root, which says little: %s belong to others", strings.Join(foreign, ", "))
	}
	if len(missing) > 0 {
		return ok(DirsWritable, "can be made: %s", strings.Join(missing, ", "))
	}
	return ok(DirsWritable, "tasks, results and state")
}

// apart looks at where the directories really lie, symlinks followed.
func apart(w WorkDir) Check {
	const move = "give it a place of its own by --"
	list := places(w)
	for i, a := range list {
		for _, b := range list[:i] {
			if within(a.path, b.path) || within(b.path, a.path) {
				return fail(DirsApart, move+a.name, "%s (%s) and %s (%s) must not be or lie in one another", a.name, a.path, b.name, b.path)
			}
		}
	}
	for _, p := range []place{{"work dir", w.Path}, {"cwd", w.Cwd}} {
		if p.path != "" && within(w.State, p.path) {
			return warn(DirsApart, move+"state, outside of what an owner's turn may write", "the state dir %s lies in the %s %s", w.State, p.name, p.path)
		}
	}
	return ok(DirsApart, "tasks, results and state do not overlap")
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(real(dir), real(path))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// real follows the symlinks of as much of a path as exists.
func real(path string) string {
	path = filepath.Clean(path)
	if p, err := filepath.EvalSymlinks(path); err == nil {
		return p
	}
	if path == filepath.Dir(path) {
		return path
	}
	return filepath.Join(real(filepath.Dir(path)), filepath.Base(path))
}

// What is little room. A reply is 48 KB, but Codex's own records of threads
// grow by some MB in a day, and a full disk costs replies.
const (
	noRoom     = 200 << 20
	littleRoom = 1 << 30
	fewInodes  = 1000
)

// space asks each file system once.
func space(w WorkDir) Check {
	least := Check{}
	var free uint64
	seen := map[string]bool{}
	for _, p := range places(w) {
		dir, err := existing(p.path)
		if err != nil {
			return fail(DiskSpace, "see dirs_writable", "%s: %s", p.name, plain(err))
		}
		if seen[dir] {
			continue
		}
		seen[dir] = true
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return fail(DiskSpace, "look at the file system of "+dir, "%s: statfs %s: %s", p.name, dir, err)
		}
		bytes := uint64(st.Bavail) * uint64(st.Bsize)
		c := judgeSpace(p, dir, bytes, uint64(st.Files), uint64(st.Ffree))
		worse := slices.Index([]Status{OK, Warn, Fail}, c.Status) - slices.Index([]Status{OK, Warn, Fail}, least.Status)
		if least.ID == "" || worse > 0 || worse == 0 && bytes < free {
			least, free = c, bytes
		}
	}
	return least
}

func judgeSpace(p place, dir string, bytes, inodes, inodesFree uint64) Check {
	room := "make room on the file system of " + dir
	switch {
	case bytes < noRoom:
		return fail(DiskSpace, room, "%s free for %s, less than %s", size(bytes), p.name, size(noRoom))
	case inodes > 0 && inodesFree < fewInodes:
		return fail(DiskSpace, "remove files on the file system of "+dir, "%d inodes free for %s", inodesFree, p.name)
	case bytes < littleRoom:
		return warn(DiskSpace, room, "%s free for %s, less than %s", size(bytes), p.name, size(littleRoom))
	}
	return ok(DiskSpace, "%s free (%s)", size(bytes), p.name)
}

// maxSkew is by how much a file's time may differ from the clock's. Ages of
// tasks are counted from the former.
const maxSkew = 2 * time.Second

// earliest is before this program was written: a clock that shows less was
// never set.
var earliest = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(w WorkDir) Check {
	now := time.Now()
	if now.Before(earliest) {
		return fail(Clock, "set the clock: timedatectl set-ntp true", "it is %s by this machine's clock", now.Format(time.DateOnly))
	}
	for _, p := range places(w) {
		dir, err := existing(p.path)
		if err != nil {
			return unseen(Clock, plain(err))
		}
		before := time.Now()
		made, err := tryFile(dir)
		if err != nil {
			return unseen(Clock, "no file can be made in "+dir)
		}
		if c := judgeClock(p, made, before, time.Now()); c.Status != OK {
			return c
		}
	}
	return ok(Clock, "files get the time of the clock")
}

// judgeClock compares with both ends of the making, which may have taken long.
func judgeClock(p place, made, before, after time.Time) Check {
	skew := max(before.Sub(made), made.Sub(after))
	if skew <= maxSkew {
		return ok(Clock, "files get the time of the clock")
	}
	side := "behind"
	if made.After(after) {
		side = "ahead of"
	}
	return fail(Clock, "set the clock of the file server of "+p.path+", or of this machine: timedatectl",
		"files in %s are %s %s the clock, so ages of tasks are wrong", p.name, skew.Round(time.Second), side)
}
