package proc

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// LockHolder names the process that holds an flock on a file or directory; 0 when
// nobody does or it cannot be told.
func LockHolder(path string) int {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	return holderIn(f, uint64(st.Dev), st.Ino)
}

// holderIn reads lines like "1: FLOCK  ADVISORY  WRITE 1234 fe:00:5678 0 EOF".
// Some file systems name another device there than stat does (btrfs, overlay):
// then the inode alone has to do, if only one process holds such a one.
func holderIn(locks io.Reader, dev, inode uint64) int {
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), inode)
	others := map[int]bool{}
	for in := bufio.NewScanner(locks); in.Scan(); {
		f := strings.Fields(in.Text())
		if len(f) < 6 || f[1] != "FLOCK" || f[3] != "WRITE" { // a waiter's line has an arrow in front
			continue
		}
		pid, err := strconv.Atoi(f[4])
		if err != nil || pid <= 0 { // from outside of our pid namespace
			continue
		}
		if f[5] == file {
			return pid
		}
		if strings.HasSuffix(f[5], fmt.Sprintf(":%d", inode)) {
			others[pid] = true
		}
	}
	if len(others) != 1 {
		return 0
	}
	for pid := range others {
		return pid
	}
	return 0
}
