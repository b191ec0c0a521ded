package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// canaryPrefix begins the name of each canary file outside a room.
const canaryPrefix = ".codex-supervisor-canary-"

// SweepCanaries removes canary files that a probe could not, because it was
// killed. Call it while no probe runs. Dirs that do not exist hold none.
func SweepCanaries(dirs ...string) (int, error) {
	removed := 0
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("sweep canaries: %w", err))
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), canaryPrefix) || !e.Type().IsRegular() {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				errs = append(errs, fmt.Errorf("sweep canaries: %w", err))
				continue
			}
			removed++
		}
	}
	return removed, errors.Join(errs...)
}
