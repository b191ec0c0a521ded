package inbox

import (
	"os"

	"github.com/fsnotify/fsnotify"
)

// TestOnlyWatch replaces the notifications. A nil function leaves polling.
func (s *Source) TestOnlyWatch(watch func(dir string) (events <-chan fsnotify.Event, errors <-chan error, err error)) {
	s.watch = func(dir string) (watcher, error) {
		events, errs, err := watch(dir)
		return watcher{events: events, errors: errs}, err
	}
}

// TestOnlyOpen replaces the opening of task files.
func (s *Source) TestOnlyOpen(open func(path string) (*os.File, error)) { s.open = open }
