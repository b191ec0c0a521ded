package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// sessionsDir is where Codex keeps the stored conversations of a home.
const sessionsDir = "sessions"

// ImportRollout copies the stored conversation of a thread from another
// CODEX_HOME into this one, so that it can be resumed here. One that is here
// already stays as it is: it may have gone on since. The error wraps
// fs.ErrNotExist when the other home has no such thread.
func ImportRollout(home Home, from, threadID string) error {
	if !threadIDPattern.MatchString(threadID) {
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

// threadIDPattern is the only form of id that Codex takes. A part of one would match
// the end of another thread's file name.
var threadIDPattern = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

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
