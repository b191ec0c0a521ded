package doctor

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// inotify asks the kernel for a watch, as the inbox will. Without one new tasks
// are still found, by looking every half minute.
func (d *doctor) inotify() Check {
	const dir = "/proc/sys/fs/inotify/"
	watches, errW := number(dir + "max_user_watches")
	instances, errI := number(dir + "max_user_instances")
	usedW, usedI := inotifyUse("/proc", d.UID)
	c := judgeInotify(usedW, watches, usedI, instances, tryWatch())
	if c.Status == OK && (errW != nil || errI != nil) {
		return ok(InotifyLimits, "a watch can be had")
	}
	return c
}

func judgeInotify(usedW, watches, usedI, instances int, err error) Check {
	raise := "sysctl -w fs.inotify.max_user_"
	const slow = "; new tasks are then found only every 30 s"
	switch {
	case errors.Is(err, unix.EMFILE):
		return warn(InotifyLimits, raise+"instances="+strconv.Itoa(max(2*instances, 512)), "no inotify instance left (%d of %d in use)"+slow, usedI, instances)
	case errors.Is(err, unix.ENOSPC):
		return warn(InotifyLimits, raise+"watches="+strconv.Itoa(max(2*watches, 65536)), "no inotify watch left (%d of %d in use)"+slow, usedW, watches)
	case err != nil:
		return warn(InotifyLimits, "allow inotify where the service runs", "no inotify here (%s)"+slow, err)
	case instances-usedI < instances/10 || watches-usedW < watches/10:
		return warn(InotifyLimits, raise+"instances="+strconv.Itoa(max(2*instances, 512))+" fs.inotify.max_user_watches="+strconv.Itoa(max(2*watches, 65536)),
			"nearly used up: %d of %d instances, %d of %d watches", usedI, instances, usedW, watches)
	}
	return ok(InotifyLimits, "%d of %d instances and %d of %d watches in use", usedI, instances, usedW, watches)
}

func tryWatch() error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, "/", unix.IN_CREATE)
	return err
}

func number(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// inotifyUse counts what this user has: the limits are per user.
func inotifyUse(proc string, uid int) (watches, instances int) {
	pids, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	for _, pid := range pids {
		if info, err := os.Stat(pid); err != nil || !owned(info, uid) {
			continue
		}
		fds, _ := os.ReadDir(filepath.Join(pid, "fd"))
		for _, fd := range fds {
			if to, err := os.Readlink(filepath.Join(pid, "fd", fd.Name())); err != nil || to != "anon_inode:inotify" {
				continue
			}
			instances++
			watches += watchesOf(filepath.Join(pid, "fdinfo", fd.Name()))
		}
	}
	return watches, instances
}

func owned(info fs.FileInfo, uid int) bool {
	st, is := info.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == uid
}

func watchesOf(fdinfo string) int {
	f, err := os.Open(fdinfo)
	if err != nil {
		return 0
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "inotify ") {
			n++
		}
	}
	return n
}
