package proc_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func TestStop(t *testing.T) {
	const soon, late = 20 * time.Millisecond, time.Hour
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	s := newSpawner(t)
	for _, c := range []struct {
		name   string
		script string
		ctx    context.Context
		times  proc.StopTimes
		want   proc.Exit
	}{
		{"Stdin", "echo ready; cat; exit 3", context.Background(), proc.StopTimes{Stdin: late, Term: late, Kill: late}, proc.Exit{Code: 3}},
		{"Term", "trap 'exit 4' TERM; echo ready; while :; do sleep 1000 & wait; done", context.Background(), proc.StopTimes{Stdin: soon, Term: late, Kill: late}, proc.Exit{Code: 4, Swept: 1}},
		{"Kill", "trap '' TERM; echo ready; while :; do sleep 1000; done", context.Background(), proc.StopTimes{Stdin: soon, Term: soon, Kill: late}, proc.Exit{Code: -1, Signal: "SIGKILL", Swept: 1}},
		// A context that is over cuts the waits short, and the last one not.
		{"CutShort", "trap '' TERM; echo ready; while :; do sleep 1000; done", cancelled, proc.StopTimes{Stdin: late, Term: late, Kill: late}, proc.Exit{Code: -1, Signal: "SIGKILL", Swept: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustStart(t, s, shell(c.script))
			mustLine(t, p)
			// The loops' sleep must be there, to be swept.
			eventually(t, "the program's child", func() bool {
				ids, err := proc.Descendants(p.Child().PID)
				return err == nil && len(ids) == 1
			})
			if got := proc.Stop(c.ctx, p, c.times); got != c.want {
				t.Errorf("exit %+v, want %+v", got, c.want)
			}
			select {
			case <-p.Done():
			default:
				t.Error("it is not done")
			}
		})
	}
	t.Run("NotInTime", func(t *testing.T) {
		p := mustStart(t, s, shell("trap '' TERM; echo ready; while :; do sleep 1000; done"))
		mustLine(t, p)
		got := proc.Stop(cancelled, p, proc.StopTimes{})
		if got.Err == nil || !strings.Contains(got.Err.Error(), "not gone") || got.Code != -1 {
			t.Errorf("exit %+v", got)
		}
		if got, want := mustEnd(t, p), "SIGKILL"; got.Signal != want {
			t.Errorf("it ended with %+v, want %s", got, want)
		}
	})
	t.Run("AlreadyOver", func(t *testing.T) {
		p := mustStart(t, s, shell("exit 9"))
		mustEnd(t, p)
		if got, want := proc.Stop(cancelled, p, proc.StopTimes{}), (proc.Exit{Code: 9}); got != want {
			t.Errorf("exit %+v, want %+v", got, want)
		}
	})
}
