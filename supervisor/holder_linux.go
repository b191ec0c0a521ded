package supervisor

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dirHolder names the process that holds the lock of a directory, by its inode
// in /proc/locks; 0 when it cannot be told. Lines read
// "1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF".
func dirHolder(info os.FileInfo) int {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0
	}
	raw, err := os.ReadFile("/proc/locks")
	if err != nil {
		return 0
	}
	suffix := ":" + strconv.FormatUint(st.Ino, 10)
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" || !strings.HasSuffix(f[5], suffix) {
			continue
		}
		if pid, err := strconv.Atoi(f[4]); err == nil && pid > 0 {
			return pid
		}
	}
	return 0
}
