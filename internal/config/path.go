package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

var errNoHome = errors.New(`"~" needs a home directory, and $HOME is not set`)

// absolute makes a path of a configuration absolute and clean: "~/" is home,
// anything relative starts at base.
func absolute(path, base, home string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		if home == "" {
			return "", errNoHome
		}
		return filepath.Join(home, path[1:]), nil
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, path)
	}
	return filepath.Clean(path), nil
}

// realPath is path with its symbolic links followed as far as it exists, so that
// two names of one directory compare equal before either is made. A link whose
// target is missing is followed too: it leads there once the target is made.
func realPath(path string) string { return follow(path, maxLinks) }

// maxLinks is where Linux gives up too (ELOOP).
const maxLinks = 40

func follow(path string, links int) string {
	if path == "" {
		return ""
	}
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	if target, err := os.Readlink(path); err == nil && links > 0 {
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		return follow(filepath.Clean(target), links-1)
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(follow(parent, links), filepath.Base(path))
}

// within reports whether path is dir or lies in it; both are real paths. A path
// that could not be settled is nowhere.
func within(path, dir string) bool {
	if path == "" || dir == "" {
		return false
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

// overlap reports whether one of two real paths is or contains the other.
func overlap(a, b string) bool { return within(a, b) || within(b, a) }

// nameFor makes a work dir's name from its path: the last element, with what
// does not belong in a directory name or a metric label replaced.
func nameFor(path string) string {
	name := strings.Map(func(r rune) rune {
		if nameRune(r) {
			return r
		}
		return '-'
	}, filepath.Base(path))
	name = strings.TrimLeft(name, "-._")
	if len(name) > maxName {
		name = name[:maxName]
	}
	if name == "" {
		return "root"
	}
	return name
}

// maxName keeps paths below the state dir far from the limits of sockets and
// file systems.
const maxName = 64

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.'
}

func validName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsFunc(name, func(r rune) bool { return !nameRune(r) }) &&
		!strings.ContainsRune("-._", rune(name[0]))
}
