package threads

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// lockHolder finds the process that holds a thread's writer lock, by the inode
// of the lock file in /proc/locks; 0 when it cannot be told.
func lockHolder(home, threadID string) int {
	matches, err := filepath.Glob(filepath.Join(home, "thread-writer-locks", "*"+threadID+"*"))
	if err != nil || len(matches) == 0 {
		return 0
	}
	info, err := os.Stat(matches[0])
	if err != nil {
		return 0
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return 0
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if pid := holderIn(in.Text(), st.Ino); pid != 0 {
			return pid
		}
	}
	return 0
}

// holderIn reads one line of /proc/locks:
// "1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF".
func holderIn(line string, inode uint64) int {
	f := strings.Fields(line)
	if len(f) < 6 || !strings.HasSuffix(f[5], fmt.Sprintf(":%d", inode)) {
		return 0
	}
	pid, err := strconv.Atoi(f[4])
	if err != nil {
		return 0
	}
	return pid
}
