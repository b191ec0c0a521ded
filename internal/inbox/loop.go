package inbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

const (
	// retryAfter is when a scan that could not be finished is tried again,
	// and how often a missing directory is looked for.
	retryAfter = time.Second
	// pollAfter replaces notifications where there are none.
	pollAfter = 2 * time.Second
	// longAgo is how old a file's last change must be for it to be final at
	// first sight. The slack over Settle is for servers whose clock is off.
	longAgo = time.Minute
)

// loop is the state of one Serve. One goroutine owns it.
type loop struct {
	*Source
	emit    func(Event)
	files   map[string]*file // by name
	waiting map[string]*file // the few of them that have not settled

	watcher   watcher
	watching  durable.Stamp // the directory that is watched; only device and inode count
	watchNext time.Time     // when to try again after watching failed
	unwatched bool          // it failed, and that was logged
	trouble   string        // the last problem with the directory, logged once
}

// run scans in full when that is due, and looks at single files when a
// notification names them or when they may have settled.
func (l *loop) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var rescan time.Time
	for ctx.Err() == nil {
		now := time.Now()
		if !now.Before(rescan) {
			rescan = time.Now().Add(l.scan(ctx))
		} else {
			l.look(ctx, l.settled(now))
		}
		timer.Reset(time.Until(l.nextLook(rescan)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case event, ok := <-l.watcher.events:
			if !ok {
				l.watchFailed(errors.New("the watcher ended"))
				rescan = time.Time{}
				continue
			}
			if l.hints(ctx, event.Name) {
				rescan = time.Time{}
			}
		case err, ok := <-l.watcher.errors:
			// Events were lost, or worse. The truth is in the directory.
			if !ok {
				err = errors.New("the watcher ended")
				l.watchFailed(err)
			}
			l.log.Debug("file notifications were lost", "dir", l.opts.Dir, "err", err)
			rescan = time.Time{}
		}
	}
}

// hints looks at all files that notifications name so far, in one batch so
// that they are ordered among each other. It reports whether the directory
// itself is concerned.
func (l *loop) hints(ctx context.Context, first string) (directory bool) {
	names := make(map[string]bool)
	note := func(path string) {
		if path == l.opts.Dir {
			directory = true
		} else {
			names[filepath.Base(path)] = true
		}
	}
	note(first)
	for range 4096 { // bounded: a flood must not keep the batch from being told
		select {
		case event, ok := <-l.watcher.events:
			if ok {
				note(event.Name)
				continue
			}
			directory = true
		default:
		}
		break
	}
	var list []string
	for name := range names {
		list = append(list, name)
	}
	l.look(ctx, list)
	return directory
}

// scan is one full look at the directory. It returns when the next is due.
func (l *loop) scan(ctx context.Context) (next time.Duration) {
	entries, err := l.list()
	if err != nil {
		l.say(err)
		return min(retryAfter, l.opts.Rescan)
	}
	proof := l.refresh()
	present := make(map[string]bool, len(entries))
	var batch batch
	for _, entry := range entries {
		if ctx.Err() != nil {
			return 0
		}
		name := entry.Name()
		stem, ok := candidate(name)
		if !ok || !entry.Type().IsRegular() {
			continue
		}
		present[name] = true
		if task.ValidID(stem) {
			batch.count++
		}
		batch.add(l.check(name, stem, proof))
	}
	for name := range l.files {
		if !present[name] {
			batch.add(l.gone(name), nil)
		}
	}
	l.tell(ctx, batch.events)
	l.say(batch.err)
	if batch.err != nil {
		// Not a listing: some files could not be judged, for want of memory or
		// file descriptors.
		return min(retryAfter, l.opts.Rescan)
	}
	if ctx.Err() == nil {
		l.emit(Listed{Count: batch.count})
	}
	if l.watcher.events == nil {
		return min(pollAfter, l.opts.Rescan)
	}
	return l.opts.Rescan
}

// look is a look at some files only.
func (l *loop) look(ctx context.Context, names []string) {
	if len(names) == 0 {
		return
	}
	proof := l.refresh()
	var batch batch
	for _, name := range names {
		if stem, ok := candidate(name); ok {
			batch.add(l.check(name, stem, proof))
		}
	}
	l.tell(ctx, batch.events)
	if batch.err != nil {
		l.log.Debug("looking at task files", "err", batch.err) // the next scan tries again
	}
}

// batch is what one look found.
type batch struct {
	events []Event
	count  int
	err    error
}

func (b *batch) add(event Event, err error) {
	if event != nil {
		b.events = append(b.events, event)
	}
	if err != nil {
		b.err = err
	}
}

// check judges one file again if anything about it changed, and returns what
// there is to tell. The error means that it could not be judged for reasons
// that lie with us.
func (l *loop) check(name, stem string, p proof) (Event, error) {
	info, err := os.Lstat(filepath.Join(l.opts.Dir, name))
	if errors.Is(err, fs.ErrNotExist) || (err == nil && !info.Mode().IsRegular()) {
		return l.gone(name), nil
	}
	if err != nil {
		return nil, err
	}
	f := l.files[name]
	stamp := durable.StampOf(info)
	now := time.Now()
	if f != nil && f.stamp == stamp && f.epoch == p.epoch && !f.unreadable && (!f.waiting || now.Sub(f.since) < l.opts.Settle) {
		return nil, nil
	}
	got, err := content{stamp: stamp, still: true}, error(nil)
	if task.ValidID(stem) {
		got, err = l.read(name)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, errNotRegular):
		return l.gone(name), nil
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ENOMEM):
		return nil, err
	}
	unreadable := err != nil && !errors.Is(err, errTooLarge)
	if unreadable {
		got.stamp = stamp
	}
	event, unfinished := l.judge(stem, got, err, p)
	sum := sha256.Sum256(got.raw)

	// Final is what has been seen unchanged for Settle, or before.
	known := f != nil && f.stamp == got.stamp
	final := known && (!f.waiting || now.Sub(f.since) >= l.opts.Settle) || now.Sub(got.stamp.Changed) >= l.opts.Settle+longAgo
	if f == nil {
		f = &file{}
		l.files[name] = f
	}
	if !known || !f.waiting {
		f.since = now
	}
	shown := f.shown
	unchanged := shown != nil && f.sum == sum && same(shown, event)
	f.stamp, f.epoch, f.unreadable = got.stamp, p.epoch, unreadable
	f.waiting = unfinished && !final
	if f.waiting {
		l.waiting[name] = f
	} else {
		delete(l.waiting, name)
	}
	if f.waiting || unchanged {
		return nil, nil
	}
	f.sum, f.shown = sum, event
	return event, nil
}

// gone forgets a file, and tells so if it was told of.
func (l *loop) gone(name string) Event {
	f := l.files[name]
	delete(l.files, name)
	delete(l.waiting, name)
	if f == nil || f.shown == nil {
		return nil
	}
	stem, _ := candidate(name)
	return Gone{ID: stem}
}

// tell emits what one look found: first what is gone, then the files by
// priority, age and name.
func (l *loop) tell(ctx context.Context, events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int {
		x, y := itemOf(a), itemOf(b)
		if x == nil || y == nil {
			return cmp.Compare(rank(x), rank(y))
		}
		return cmp.Or(cmp.Compare(x.Priority, y.Priority), x.ModTime.Compare(y.ModTime), cmp.Compare(x.ID, y.ID))
	})
	for _, event := range events {
		if ctx.Err() != nil {
			return
		}
		l.emit(event)
	}
}

func itemOf(e Event) *Item {
	switch e := e.(type) {
	case Found:
		return &e.Item
	case Rejected:
		return &e.Item
	case Gone, Listed:
		return nil
	default:
		return nil
	}
}

func rank(item *Item) int {
	if item == nil {
		return 0
	}
	return 1
}

// settled lists the waiting files that have been unchanged for long enough.
func (l *loop) settled(now time.Time) []string {
	var names []string
	for name, f := range l.waiting {
		if now.Sub(f.since) >= l.opts.Settle {
			names = append(names, name)
		}
	}
	return names
}

// nextLook is when something is due: the rescan, or a file that settles.
func (l *loop) nextLook(rescan time.Time) time.Time {
	next := rescan
	for _, f := range l.waiting {
		if at := f.since.Add(l.opts.Settle); at.Before(next) {
			next = at
		}
	}
	return next
}

// say logs a problem with the directory when it begins, changes or ends.
func (l *loop) say(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text == l.trouble {
		return
	}
	l.trouble = text
	if err != nil {
		l.log.Warn("the tasks directory cannot be read, waiting for it", "dir", l.opts.Dir, "err", err)
	} else {
		l.log.Info("the tasks directory can be read again", "dir", l.opts.Dir)
	}
}
