package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// linkReferences makes the files that a configuration names by a relative path
// (model_instructions_file, an agent's config_file) reachable from the copy.
// Codex looks for them beside the configuration that it reads, and a missing
// one fails every thread/start (codex app-server 0.171.0, measured).
func linkReferences(config []byte, from, dir string) error {
	var tree map[string]any
	if toml.Unmarshal(config, &tree) != nil {
		return nil // Codex says so itself
	}
	var errs []error
	walkStrings(tree, func(value string) {
		if !referable(value) {
			return
		}
		target, path := filepath.Join(from, value), filepath.Join(dir, value)
		if info, err := os.Stat(target); err != nil || !info.Mode().IsRegular() {
			return
		}
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return // ours or Codex's own
		}
		errs = append(errs, os.MkdirAll(filepath.Dir(path), 0o700), link(target, path, false))
	})
	return errors.Join(errs...)
}

// walkStrings visits every string of a decoded configuration.
func walkStrings(value any, visit func(string)) {
	switch v := value.(type) {
	case string:
		visit(v)
	case []any:
		for _, item := range v {
			walkStrings(item, visit)
		}
	case map[string]any:
		for _, item := range v {
			walkStrings(item, visit)
		}
	}
}

// referable reports whether a string can be such a path. What a private home
// must not have, or has in its own way, is never linked.
func referable(value string) bool {
	if value == "" || len(value) > 1024 || strings.ContainsAny(value, "\n\x00") || !filepath.IsLocal(value) {
		return false
	}
	switch top, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(value)), "/"); strings.ToLower(top) {
	case "agents.md", "agents.override.md", "config.toml", "auth.json", ".credentials.json", "skills", "rules", "plugins", sessionsDir:
		return false
	default:
		return !strings.Contains(top, ".sqlite")
	}
}
