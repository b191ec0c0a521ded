package inbox

import (
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
)

// watcher is the part of fsnotify that is used. Its zero value never says
// anything.
type watcher struct {
	events <-chan fsnotify.Event
	errors <-chan error
	close  func() error
}

func watchDir(dir string) (watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return watcher{}, fmt.Errorf("watch %q: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		_ = w.Close()
		return watcher{}, fmt.Errorf("watch %q: %w", dir, err)
	}
	return watcher{events: w.Events, errors: w.Errors, close: w.Close}, nil
}

// list lists the directory and sees to it that this very directory is
// watched from before: what comes later is either listed or announced. A
// directory that was replaced under its name is another one.
func (l *loop) list() ([]fs.DirEntry, error) {
	info, err := os.Stat(l.opts.Dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("look into %q: not a directory", l.opts.Dir)
	}
	if err != nil {
		l.unwatch()
		return nil, err
	}
	at := durable.StampOf(info)
	if l.watcher.events != nil && (at.Device != l.watching.Device || at.Inode != l.watching.Inode) {
		l.unwatch()
	}
	if now := time.Now(); l.watcher.events == nil && !now.Before(l.watchNext) {
		if w, err := l.watch(l.opts.Dir); err != nil {
			l.watchFailed(err)
		} else {
			l.watcher, l.watching = w, at
			if l.unwatched {
				l.log.Info("watching the tasks directory again", "dir", l.opts.Dir)
			}
			l.unwatched = false
		}
	}
	return os.ReadDir(l.opts.Dir)
}

// watchFailed degrades to polling: inotify limits are per user and not ours
// to raise. It is tried again with every Rescan.
func (l *loop) watchFailed(err error) {
	l.unwatch()
	l.watchNext = time.Now().Add(l.opts.Rescan)
	if !l.unwatched {
		l.log.Warn("no file notifications, polling instead", "dir", l.opts.Dir, "every", min(pollAfter, l.opts.Rescan).String(), "err", err)
	}
	l.unwatched = true
}

func (l *loop) unwatch() {
	if l.watcher.close != nil {
		_ = l.watcher.close()
	}
	l.watcher = watcher{}
}
