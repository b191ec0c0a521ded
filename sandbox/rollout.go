package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// sessionsDir is where Codex keeps the stored conversations of a home.
const sessionsDir = "sessions"

// ImportRollout copies the stored conversation of a thread from another
// CODEX_HOME into this one, so that it can be resumed here. One that is here
// already stays as it is: it may have gone on since. The error wraps
// fs.ErrNotExist when the other home has no such thread.
func ImportRollout(home Home, from, threadID string) error {
	if !plainThreadID(threadID) {
		return fmt.Errorf("import thread: %q is no thread id", threadID)
	}
	if here, err := findRollout(home.Dir, threadID); err == nil && here != "" {
		return nil
	}
	rel, err := findRollout(from, threadID)
	if err != nil {
		return fmt.Errorf("import thread %s: %w", threadID, err)
	}
	src, err := os.Open(filepath.Join(from, rel))
	if err != nil {
		return fmt.Errorf("import thread %s: %w", threadID, err)
	}
	defer src.Close()
	dst := filepath.Join(home.Dir, rel)
	if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
		return fmt.Errorf("import thread %s: %w", threadID, err)
	}
	if err := replaceFile(dst, src); err != nil {
		return fmt.Errorf("import thread %s: %w", threadID, err)
	}
	return nil
}

// plainThreadID keeps patterns and separators out of a file name's match.
func plainThreadID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	return strings.IndexFunc(id, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}) < 0
}

// findRollout returns the path of a thread's file relative to its home.
func findRollout(home, threadID string) (string, error) {
	found := ""
	root := filepath.Join(home, sessionsDir)
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		// Codex may keep old ones compressed.
		if entry.Type().IsRegular() && strings.HasPrefix(name, "rollout-") &&
			(strings.HasSuffix(name, "-"+threadID+".jsonl") || strings.HasSuffix(name, "-"+threadID+".jsonl.zst")) {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if found == "" {
		return "", fmt.Errorf("find its rollout below %s: %w", root, fs.ErrNotExist)
	}
	return filepath.Rel(home, found)
}
