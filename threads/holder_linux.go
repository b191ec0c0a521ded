package threads

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockHolder finds the process that holds a thread's writer lock, an flock on
// CODEX_HOME/thread-writer-locks/ID.lock (codex 0.171.0, measured; nothing is
// written into the file); 0 when it cannot be told.
func lockHolder(home, threadID string) int {
	var st syscall.Stat_t
	if filepath.Base(threadID) != threadID || syscall.Stat(filepath.Join(home, "thread-writer-locks", threadID+".lock"), &st) != nil {
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
