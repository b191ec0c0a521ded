package proc_test

import (
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func TestHolderIn(t *testing.T) {
	dev := unix.Mkdev(0xfe, 0x1)
	for name, tc := range map[string]struct {
		lines string
		want  int
	}{
		"Held":           {"1: POSIX  ADVISORY  READ 5 fe:01:77 128 128\n2: FLOCK  ADVISORY  WRITE 42 fe:01:77 0 EOF\n", 42},
		"ExactFirst":     {"1: FLOCK  ADVISORY  WRITE 41 00:2f:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 fe:01:77 0 EOF\n", 42},
		"OtherDevice":    {"1: FLOCK  ADVISORY  WRITE 41 00:2f:77 0 EOF\n", 41},
		"TwoOthers":      {"1: FLOCK  ADVISORY  WRITE 41 00:2f:77 0 EOF\n2: FLOCK  ADVISORY  WRITE 42 00:30:77 0 EOF\n", 0},
		"OtherInode":     {"1: FLOCK  ADVISORY  WRITE 41 fe:01:177 0 EOF\n2: FLOCK  ADVISORY  WRITE 41 fe:01:7 0 EOF\n", 0},
		"Waiter":         {"1: -> FLOCK  ADVISORY  WRITE 41 fe:01:77 0 EOF\n", 0},
		"OtherNamespace": {"1: FLOCK  ADVISORY  WRITE 0 fe:01:77 0 EOF\n2: FLOCK  ADVISORY  WRITE x fe:01:77 0 EOF\n", 0},
		"Nothing":        {"\nshort line\n", 0},
	} {
		if got := proc.HolderIn(strings.NewReader(tc.lines), dev, 77); got != tc.want {
			t.Errorf("%s: held by %s, want %d", name, strconv.Itoa(got), tc.want)
		}
	}
}
