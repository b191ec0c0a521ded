package inbox

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

var (
	errTooLarge   = errors.New("file is too large")
	errNotRegular = errors.New("not a regular file")
)

// file is what the loop remembers of one name.
type file struct {
	stamp      durable.Stamp // of the bytes that were judged last
	sum        [sha256.Size]byte
	epoch      uint64 // of the proof they were judged by
	waiting    bool   // not final yet: judged again when it changes or has settled
	since      time.Time
	unreadable bool  // judged again with every look
	shown      Event // the last Found or Rejected of it
}

// content is one reading of a file.
type content struct {
	raw   []byte
	stamp durable.Stamp
	still bool // nobody changed it while it was read
}

// candidate reports whether a directory entry's name is ours to look at.
func candidate(name string) (stem string, ok bool) {
	stem, ok = strings.CutSuffix(name, ".txt")
	return stem, ok && !strings.HasPrefix(name, ".") && !task.OtherWorkers(stem)
}

// openFile does not follow a link out of the directory and does not hang on
// a FIFO.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// read reads a file of the directory once. With errTooLarge only the stamp
// is set.
func (s *Source) read(name string) (content, error) {
	f, err := s.open(filepath.Join(s.opts.Dir, name))
	if errors.Is(err, syscall.ELOOP) {
		return content{}, fmt.Errorf("open %q: %w", name, errNotRegular)
	}
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return content{}, err
	}
	if !info.Mode().IsRegular() {
		return content{}, fmt.Errorf("open %q: %w", name, errNotRegular)
	}
	before := durable.StampOf(info)
	if info.Size() > s.opts.MaxBytes {
		return content{stamp: before}, errTooLarge
	}
	var buf bytes.Buffer
	buf.Grow(int(info.Size()) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(f, s.opts.MaxBytes+1)); err != nil {
		return content{}, err
	}
	if info, err = f.Stat(); err != nil {
		return content{}, err
	}
	got := content{raw: buf.Bytes(), stamp: durable.StampOf(info)}
	got.still = got.stamp == before
	if int64(len(got.raw)) > s.opts.MaxBytes {
		return content{stamp: got.stamp}, errTooLarge
	}
	return got, nil
}

// judge makes the event of one reading, and says whether the file may be
// unfinished: writers exist that do not rename, and a file cut anywhere can
// be refused for almost any reason. What it lacks may still come, except for
// one that is too large already. A gateway's file ends in its tier, so one
// that runs but has none may be cut before it, and would run as a guest's.
func (s *Source) judge(stem string, got content, err error, p proof) (event Event, unfinished bool) {
	var t task.Task
	switch {
	case errors.Is(err, errTooLarge):
		t, err = task.Task{ID: stem, Tier: task.Guest, Priority: task.Normal}, s.tooLarge(got.stamp.Size)
	case err != nil:
		detail := err.Error()
		if in := (*os.PathError)(nil); errors.As(err, &in) {
			detail = in.Op + ": " + in.Err.Error() // the room need not learn the path
		}
		t = task.Task{ID: stem, Tier: task.Guest, Priority: task.Normal}
		err = &task.Rejection{Reason: reason.FileUnreadable, Detail: detail}
	default:
		t, err = task.Parse(stem, got.raw, p.key, p.policy)
	}
	item := Item{
		ID: stem, Tier: t.Tier, ChannelID: strings.Clone(t.ChannelID), ChannelKey: task.ChannelKey(t.ChannelID),
		Priority: t.Priority, Verdict: t.Verdict, ModTime: got.stamp.Modified, Size: got.stamp.Size,
	}
	var rejection *task.Rejection
	if !errors.As(err, &rejection) {
		_, hasTier := t.Headers["access_tier"]
		return Found{Item: item}, !got.still || (t.Layout == task.LayoutMid && !hasTier)
	}
	return Rejected{
		Item: item, Reason: rejection.Reason, Detail: rejection.Detail, IDSound: addressed(stem, rejection.Reason),
	}, rejection.Reason != reason.FileTooLarge && rejection.Reason != reason.FileNameBad
}

// addressed reports whether a refused file was meant as a task at all. Ids
// need not begin with `task-`, but a file that neither does nor holds a task
// is a text that somebody put there, and answering it would litter results.
func addressed(stem string, why reason.Reason) bool {
	if !task.ValidID(stem) {
		return false
	}
	noTask := []reason.Reason{reason.NoTask, reason.FileNotUTF8, reason.FileTooLarge, reason.FileUnreadable}
	return strings.HasPrefix(stem, "task-") || !slices.Contains(noTask, why)
}

// same reports whether two events of the same bytes say the same: only the
// times differ.
func same(a, b Event) bool {
	return plain(a) == plain(b)
}

func plain(e Event) Event {
	switch e := e.(type) {
	case Found:
		e.ModTime = time.Time{}
		return e
	case Rejected:
		e.ModTime = time.Time{}
		return e
	case Gone, Listed:
		return e
	default:
		return e
	}
}
