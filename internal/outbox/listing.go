package outbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
)

// unsettled is how old a directory's last change must be before a listing
// taken after it may be used again: file systems stamp changes with clocks
// as coarse as two seconds, so a later change could carry the same stamp.
const unsettled = 3 * time.Second

// listing is what a directory held. Archives grow to tens of thousands of
// files and are asked about for every task, so a listing is kept until the
// directory's own time stamps move.
type listing struct {
	stamp durable.Stamp // of the directory, taken before it was read
	files []string      // names ending in .txt, not dotted, sorted
	dirs  []string      // sorted
}

// list returns the listing of dir; a missing directory is an empty one.
func (s *Sink) list(dir string) (listing, error) {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return listing{}, nil
	}
	if err != nil {
		return listing{}, fmt.Errorf("look into %q: %w", dir, err)
	}
	fresh := listing{stamp: durable.StampOf(info)}
	s.mu.Lock()
	old, ok := s.listings[dir]
	s.mu.Unlock()
	if ok && old.stamp == fresh.stamp {
		return old, nil
	}
	looked := s.now()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{}, fmt.Errorf("list %q: %w", dir, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case entry.IsDir():
			fresh.dirs = append(fresh.dirs, name)
		case strings.HasSuffix(name, ".txt"):
			fresh.files = append(fresh.files, strings.Clone(name))
		}
	}
	slices.Sort(fresh.files)
	slices.Sort(fresh.dirs)
	s.mu.Lock()
	defer s.mu.Unlock()
	if looked.Sub(fresh.stamp.Changed) >= unsettled {
		s.listings[dir] = fresh
	} else {
		delete(s.listings, dir)
	}
	return fresh, nil
}

// dayDirsFor is how long the list of day archives is used again. The results dir
// changes with each reply, and with 10,000 results lying in it a listing for each
// question made an owner wait over a minute behind a flood (measured); a new day
// archive appears once a day, when a gateway starts.
const dayDirsFor = 3 * time.Second

// dayDirs returns the day archives, sorted.
func (s *Sink) dayDirs() ([]string, error) {
	s.mu.Lock()
	days, listed := s.days, s.daysListed
	s.mu.Unlock()
	if now := s.now(); !listed.IsZero() && now.Sub(listed) < dayDirsFor && !now.Before(listed) {
		return days, nil
	}
	looked := s.now()
	top, err := s.list(s.results)
	if err != nil {
		return nil, err
	}
	days = nil
	for _, name := range top.dirs {
		if dayDir.MatchString(name) {
			days = append(days, name)
		}
	}
	s.mu.Lock()
	s.days, s.daysListed = days, looked
	s.mu.Unlock()
	return days, nil
}

// of returns the files whose name is id followed by something that rest
// accepts (the part between the id and `.txt`), sorted.
func (l listing) of(id string, rest func(string) bool) []string {
	var out []string
	at, _ := slices.BinarySearch(l.files, id)
	for ; at < len(l.files) && strings.HasPrefix(l.files[at], id); at++ {
		if rest(strings.TrimSuffix(l.files[at][len(id):], ".txt")) {
			out = append(out, l.files[at])
		}
	}
	return out
}
