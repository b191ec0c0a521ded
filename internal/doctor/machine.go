package doctor

import (
	"math"

	"golang.org/x/sys/unix"
)

// Descriptors of a child: Codex needs 2 for each loaded thread and failed at
// 1,024 (codex app-server 0.171.0, measured); the service asks for 65,536.
const (
	wantedFiles = 65536
	someFiles   = 8192
	fewFiles    = 1024
)

// nofile looks at the hard limit: the soft one is raised to it for the child.
func nofile() Check {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		return unseen(NofileLimit, err.Error())
	}
	return judgeFiles(uint64(l.Max))
}

func judgeFiles(hard uint64) Check {
	const raise = "raise it: LimitNOFILE=65536 in the unit, or `ulimit -Hn` of the login"
	switch {
	case hard >= math.MaxInt64:
		return ok(NofileLimit, "no limit on open files")
	case hard <= fewFiles:
		return fail(NofileLimit, raise, "at most %d open files; Codex stops taking work there", hard)
	case hard < someFiles:
		return warn(NofileLimit, raise, "at most %d open files, enough for %d loaded threads", hard, hard/2)
	}
	return ok(NofileLimit, "%d open files", hard)
}
