package sandbox_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func TestSweepCanaries(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".codex-supervisor-canary-1", ".codex-supervisor-canary-2", "task-a.txt", ".other"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".codex-supervisor-canary-dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	n, err := sandbox.SweepCanaries(dir, filepath.Join(dir, "missing"))
	if n != 2 || err != nil {
		t.Errorf("removed %d, %v; want 2", n, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 3 {
		t.Errorf("left %v, %v; want the three that are no canaries", left, err)
	}
}
