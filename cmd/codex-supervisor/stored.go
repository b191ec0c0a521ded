package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// storedWait is how long a ledger may be held by somebody else. A service that
// holds it is asked over its socket instead.
const storedWait = 300 * time.Millisecond

// storedDir is what a work dir's ledger says while no service runs.
type storedDir struct {
	Name    string                    `json:"name"`
	State   string                    `json:"state_dir"`
	Threads []supervisor.ThreadStatus `json:"threads"`
	Problem string                    `json:"problem,omitempty"`
}

// storedDirs reads the ledger of --work or --state; without either, all that
// lie where services without orders put them.
func (e *environment) storedDirs(work, state string) ([]storedDir, error) {
	dirs, err := e.stateDirs(work, state)
	if err != nil {
		return nil, err
	}
	list := make([]storedDir, 0, len(dirs))
	for _, dir := range dirs {
		d := storedDir{Name: filepath.Base(dir), State: dir, Threads: []supervisor.ThreadStatus{}}
		err := withLedger(dir, func(db *store.DB) error {
			channels, err := db.Channels()
			if err == nil {
				d.Threads = supervisor.ThreadsOf(channels)
			}
			return err
		})
		switch {
		case errors.Is(err, fs.ErrNotExist):
			d.Problem = "nothing was ever stored here"
		case err != nil:
			d.Problem = err.Error()
		}
		list = append(list, d)
	}
	return list, nil
}

func (e *environment) stateDirs(work, state string) ([]string, error) {
	if state != "" {
		path, err := filepath.Abs(state)
		if err != nil {
			return nil, fmt.Errorf("find state dir: %w", err)
		}
		return []string{path}, nil
	}
	settled, err := e.singleWorkDir(work)
	if err != nil {
		return nil, err
	}
	if work != "" {
		return []string{settled.State}, nil
	}
	root := filepath.Dir(settled.State)
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list state dirs: %w", err)
	}
	var found []string
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		if _, err := os.Stat(supervisor.LedgerPath(dir)); err == nil {
			found = append(found, dir)
		}
	}
	return found, nil
}

// singleWorkDir is what `run --work` would make of a directory.
func (e *environment) singleWorkDir(work string) (config.WorkDir, error) {
	if work == "" {
		work = "/nonexistent/any" // only where its state would lie is asked
	}
	c, err := config.SingleWorkDir(config.Overlay{WorkDirKeys: config.WorkDirKeys{Path: &work}}, e.getenv)
	if err != nil {
		return config.WorkDir{}, err
	}
	return c.WorkDirs[0], nil
}

// withLedger lets f read the ledger in a state dir.
func withLedger(state string, f func(*store.DB) error) error {
	path := supervisor.LedgerPath(state)
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("look for ledger: %w", err)
	}
	db, err := store.OpenReadOnly(path, storedWait)
	if err != nil {
		return fmt.Errorf("open ledger %q: %w", path, err)
	}
	err = f(db)
	if closeErr := db.Close(); err == nil {
		err = closeErr
	}
	return err
}
