package stubserver

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// entry is one line of a stored thread.
type entry struct {
	Turn   string         `json:"turn,omitempty"`
	Item   *rpc.Item      `json:"item,omitempty"`
	Status string         `json:"status,omitempty"`
	Error  *rpc.TurnError `json:"error,omitempty"`
	// Compacted marks the point from which on the thread is short again.
	Compacted bool `json:"compacted,omitempty"`
}

func (s *Server) rolloutPath(thread string) string {
	return filepath.Join(s.home, "sessions", "2026", "01", "01", "rollout-2026-01-01T00-00-00-"+thread+".jsonl")
}

// store appends to a durable thread. Like Codex it does not fsync.
func (s *Server) store(t *thread, e entry) {
	t.entries = append(t.entries, e)
	if t.ephemeral {
		return
	}
	path := s.rolloutPath(t.id)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	_, _ = f.Write(append(line, '\n'))
}

// load reads a stored thread; fs.ErrNotExist when no turn of it was stored.
func (s *Server) load(thread string) ([]entry, error) {
	f, err := os.Open(s.rolloutPath(thread))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries []entry
	in := bufio.NewReader(f)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return entries, nil // a half-written last line is tolerated
		}
		var e entry
		if json.Unmarshal(line, &e) == nil {
			entries = append(entries, e)
		}
	}
}

// turnsOf builds the turns of a thread, oldest first. One without an end was cut
// off, unless it is the one that runs.
func turnsOf(entries []entry, running string) []rpc.Turn {
	var turns []rpc.Turn
	index := map[string]int{}
	for _, e := range entries {
		if e.Turn == "" {
			continue
		}
		i, ok := index[e.Turn]
		if !ok {
			status := rpc.TurnInterrupted
			if e.Turn == running {
				status = rpc.TurnInProgress
			}
			i = len(turns)
			index[e.Turn] = i
			turns = append(turns, rpc.Turn{ID: e.Turn, Status: status, ItemsView: "summary"})
		}
		if e.Item != nil {
			turns[i].Items = append(turns[i].Items, *e.Item)
		}
		if e.Status != "" {
			turns[i].Status, turns[i].Error = e.Status, e.Error
		}
	}
	return turns
}

// prompts are the user messages of a thread, oldest first.
func prompts(entries []entry) []string {
	var all []string
	for _, e := range entries {
		if e.Item != nil && e.Item.Type == rpc.ItemUserMessage {
			all = append(all, e.Item.Text)
		}
	}
	return all
}

// lockThread takes a thread's writer lock, as one process at a time may.
func (s *Server) lockThread(t *thread) error {
	if t.ephemeral || t.lock != nil {
		return nil
	}
	dir := filepath.Join(s.home, "thread-writer-locks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, t.id+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("thread %s already has an active writer", t.id)
		}
		return err
	}
	t.lock = f
	return nil
}

// once says whether something happens for the first time in this CODEX_HOME.
func (s *Server) once(what string) bool {
	f, err := os.OpenFile(filepath.Join(s.home, "stub-once-"+what), os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return false
	}
	if err == nil {
		_ = f.Close()
	}
	return true
}
