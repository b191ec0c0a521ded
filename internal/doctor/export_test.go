package doctor

import (
	"context"
	"time"

	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

// The judgements, without what they judge.
var (
	JudgeSpace = func(bytes, inodes, free uint64) Check {
		return judgeSpace(place{"state", "/state"}, "/state", bytes, inodes, free)
	}
	JudgeClock = func(made, before, after time.Time) Check {
		return judgeClock(place{"state", "/state"}, made, before, after)
	}
	JudgeFiles = judgeFiles
	Bounded    = bounded
	OneLine    = oneLine
	Size       = size
)

// RunBroken is Run with something between the commands and the child, which has
// patience to come up.
func RunBroken(ctx context.Context, o Options, patience time.Duration, wrap func(env []string, exec sandbox.ExecFunc) sandbox.ExecFunc) Report {
	return (&doctor{Options: o, wrap: wrap, patience: patience}).run(ctx)
}
