package outbox

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

const (
	archiveDir     = "archive"
	undeliveredDir = "undelivered"
)

var (
	monthDir = regexp.MustCompile(`^\d{4}-\d{2}\z`)               // archive/YYYY-MM
	dayDir   = regexp.MustCompile(`^archive-\d{4}-\d{2}-\d{2}\z`) // beside archive/
	// stampedName is what an archived result's name has behind the id. Digits
	// and nothing else: `task-a-1-x.txt` is the result of another id, and
	// `-<epoch>-late-duplicate` is a copy that proves nothing by itself.
	stampedName = regexp.MustCompile(`^-\d+\z`)
	// quarantinedName: `-<epoch>` after failed deliveries, `.<why>.<epoch>`
	// from the orphan sweep (no-task, too-old, has-attachments,
	// deduped-orphan; an open set). One word only, for ids contain dots.
	quarantinedName = regexp.MustCompile(`^(?:|-\d+|\.[a-z]+(?:-[a-z]+)*\.\d+)\z`)
)

func exact(rest string) bool { return rest == "" }

// Done reports whether a result of id exists in any place where results live
// or end up, and where, as a path below the results directory. Candidates
// must be ready, as the poster skips others and so must we; an unready one
// does not end the search. A quarantined result counts whatever is in it:
// the poster never sends one of that id again.
//
// An error means that it is not known; the task must then not be run.
func (s *Sink) Done(id string) (where string, done bool, err error) {
	name, err := fileName(id)
	if err != nil {
		return "", false, err
	}
	for place, err := range s.places(id, name) {
		if err != nil {
			return "", false, fmt.Errorf("look for result of %s: %w", id, err)
		}
		ok, err := ready(filepath.Join(s.results, place))
		if err != nil {
			return "", false, fmt.Errorf("look at result of %s: %w", id, err)
		}
		if ok {
			return place, true, nil
		}
	}
	quarantined, err := s.quarantined(id)
	if err != nil || len(quarantined) == 0 {
		return "", false, err
	}
	return filepath.Join(undeliveredDir, quarantined[len(quarantined)-1]), true, nil
}

// Undelivered reports whether the poster quarantined a result of id. Nobody
// but us tells the operator.
func (s *Sink) Undelivered(id string) (bool, error) {
	if _, err := fileName(id); err != nil {
		return false, err
	}
	found, err := s.quarantined(id)
	return len(found) > 0, err
}

func (s *Sink) quarantined(id string) ([]string, error) {
	l, err := s.list(filepath.Join(s.results, undeliveredDir))
	if err != nil {
		return nil, fmt.Errorf("look for undelivered result of %s: %w", id, err)
	}
	return l.of(id, quarantinedName.MatchString), nil
}

// places yields every path that may be a result of id, in the order in which
// gateways search: the live one, the archive, its months and the day
// archives newest first, and the stamped names of the flat archive.
func (s *Sink) places(id, name string) func(yield func(string, error) bool) {
	return func(yield func(string, error) bool) {
		each := func(dir string, names []string) bool {
			for _, name := range slices.Backward(names) {
				if !yield(filepath.Join(dir, name), nil) {
					return false
				}
			}
			return true
		}
		if !yield(name, nil) {
			return
		}
		archive, err := s.list(filepath.Join(s.results, archiveDir))
		if err != nil {
			yield("", err)
			return
		}
		if !each(archiveDir, archive.of(id, exact)) {
			return
		}
		for _, month := range slices.Backward(archive.dirs) {
			if !monthDir.MatchString(month) {
				continue
			}
			dir := filepath.Join(archiveDir, month)
			l, err := s.list(filepath.Join(s.results, dir))
			if err != nil {
				yield("", err)
				return
			}
			if !each(dir, l.of(id, exact)) || !each(dir, l.of(id, stampedName.MatchString)) {
				return
			}
		}
		days, err := s.dayDirs()
		if err != nil {
			yield("", err)
			return
		}
		for _, day := range slices.Backward(days) {
			l, err := s.list(filepath.Join(s.results, day))
			if err != nil {
				yield("", err)
				return
			}
			if !each(day, l.of(id, exact)) {
				return
			}
		}
		each(archiveDir, archive.of(id, stampedName.MatchString))
	}
}

// ready reports whether the poster would take the file: it is a regular
// file, decodes, and has something to show. One that we may not read but
// that has bytes counts as ready: it was written by somebody else for this
// id, and the other choice answers twice.
func ready(path string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrPermission):
		info, err := os.Stat(path)
		return err == nil && info.Mode().IsRegular() && info.Size() > 0, nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENXIO):
		return false, nil
	default:
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false, err
	}
	shows := false
	in := bufio.NewReader(f)
	for {
		r, size, err := in.ReadRune()
		if err == io.EOF {
			return shows, nil
		}
		if err != nil {
			return false, err
		}
		if r == utf8.RuneError && size == 1 {
			return false, nil
		}
		shows = shows || !task.IsSpace(r)
	}
}

// shows reports whether a text has anything to show after trimming.
func shows(text string) bool { return strings.TrimFunc(text, task.IsSpace) != "" }
