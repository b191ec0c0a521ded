package stubserver

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// entry is one line of a stored thread.
type entry struct {
	Type string `json:"type"`
	// Meta is the first line's.
	Meta *meta  `json:"meta,omitempty"`
	Turn string `json:"turn,omitempty"`
	// Script is what the script file added to the turn's words.
	Script    string `json:"script,omitempty"`
	Item      *item  `json:"item,omitempty"`
	Status    string `json:"status,omitempty"`
	Error     object `json:"error,omitempty"`
	Started   int64  `json:"started,omitempty"` // unix milliseconds
	Completed int64  `json:"completed,omitempty"`
}

// Types of entries.
const (
	entryMeta      = "session_meta"
	entryStarted   = "turn_started"
	entryItem      = "item"
	entryEnded     = "turn_ended"
	entryCompacted = "compacted"
)

// meta describes a stored thread.
type meta struct {
	ID      string `json:"id"`
	Cwd     string `json:"cwd"`
	Created int64  `json:"created"` // unix seconds
	Policy  policy `json:"policy"`
	Origin  string `json:"originator"`
}

// errNoMeta is a rollout that is empty or lacks its first line.
var errNoMeta = errors.New("failed to read session metadata")

// store appends to a thread. The file is made with the first turn, as Codex makes
// it, and like Codex's it is never fsynced.
func (s *Server) store(t *thread, e entry) {
	t.entries = append(t.entries, e)
	if t.ephemeral || s.ended {
		return
	}
	lines := []entry{e}
	if !exists(t.path) {
		lines = []entry{{Type: entryMeta, Meta: &t.meta}, e}
	}
	if err := appendLines(t.path, lines); err != nil {
		s.complain("ERROR codex_rollout: %v", err)
	}
}

func appendLines(path string, entries []entry) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var text []byte
	for _, e := range entries {
		line, err := encode(e)
		if err != nil {
			return errors.Join(err, f.Close())
		}
		text = append(text, line...)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// rolloutPath is where a new thread will be stored.
func (s *Server) rolloutPath(id string, at time.Time) string {
	return filepath.Join(s.home, "sessions", at.Format("2006/01/02"), "rollout-"+at.Format("2006-01-02T15-04-05")+"-"+id+".jsonl")
}

// find looks for a stored thread. Archived ones lie elsewhere.
func (s *Server) find(id string) (path string, archived bool) {
	for i, pattern := range []string{"sessions/*/*/*/rollout-*-" + id + ".jsonl", "archived_sessions/rollout-*-" + id + ".jsonl"} {
		found, err := filepath.Glob(filepath.Join(s.home, pattern))
		if err == nil && len(found) > 0 {
			return found[0], i == 1
		}
	}
	return "", false
}

// load reads a stored thread: fs.ErrNotExist when there is none. A half-written
// last line and garbage in the middle are tolerated, a lost first line is not.
func (s *Server) load(id string) (t *thread, archived bool, err error) {
	path, archived := s.find(id)
	if path == "" {
		return nil, false, fs.ErrNotExist
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, archived, err
	}
	defer f.Close()
	t = &thread{path: path}
	in := bufio.NewReader(f)
	for {
		line, readErr := in.ReadBytes('\n')
		if readErr != nil {
			break
		}
		var e entry
		if decodeLine(line, &e) != nil {
			continue
		}
		if e.Type == entryMeta && e.Meta != nil {
			t.meta = *e.Meta
			continue
		}
		t.entries = append(t.entries, e)
	}
	if t.meta.ID != id {
		return nil, archived, fmt.Errorf("failed to read thread: thread-store internal error: %w: rollout %s is empty", errNoMeta, path)
	}
	return t, archived, nil
}

// lockThread takes a thread's writer lock, as one process at a time may.
func (s *Server) lockThread(t *thread) *fault {
	if t.ephemeral || t.lock != nil {
		return nil
	}
	held := invalid("thread %s already has an active writer", t.meta.ID)
	if exists(filepath.Join(s.home, lockedFile)) {
		return held
	}
	dir := filepath.Join(s.home, "thread-writer-locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return refuse(codeInternal, "failed to open thread writer lock: %v", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, t.meta.ID+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return refuse(codeInternal, "failed to open thread writer lock: %v", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return held
	}
	t.lock = f
	return nil
}

func (t *thread) unlock() {
	if t.lock != nil {
		_ = t.lock.Close()
		t.lock = nil
	}
}

func (s *Server) unlockAll() {
	for _, t := range s.threads {
		t.unlock()
	}
}
