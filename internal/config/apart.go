package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
)

// apart checks one work dir's own directories against each other.
func (s *scope) apart(w WorkDir) {
	dirs := []struct{ key, path string }{{"tasks", w.Tasks}, {"results", w.Results}, {"state", w.State}}
	for i, a := range dirs {
		for _, b := range dirs[:i] {
			if a.path != "" && overlap(realPath(a.path), realPath(b.path)) {
				s.fail(s.found[a.key], "%s (%s) and %s (%s) of work dir %q must not be or lie in one another", a.key, a.path, b.key, b.path, w.Name)
			}
		}
	}
	// An owner's turn writes where it works: the ledger, the lock and the
	// private Codex home must not lie there by accident.
	for _, owner := range []struct{ key, path string }{{"work dir", w.Path}, {"cwd", w.Cwd}} {
		if w.State == "" || !within(realPath(w.State), realPath(owner.path)) {
			continue
		}
		f := s.found["state"]
		if f.origin == FromFile || f.origin == FromFlag {
			s.warn("the state dir %s of work dir %q lies in its %s %s, where an owner's turn may write", w.State, w.Name, owner.key, owner.path)
		} else {
			s.fail(f, "the state dir %s of work dir %q would lie in its %s %s, where an owner's turn may write; name another with state, or --state DIR",
				w.State, w.Name, owner.key, owner.path)
		}
		break
	}
}

// claim is one directory of a work dir.
type claim struct{ key, path, real string }

// apart checks the work dirs against each other: no two share or nest any of
// tasks, results and state, and none keeps its state where another's owner
// writes.
func (s *settler) apart() {
	dirs := s.config.WorkDirs
	claims := make([][]claim, len(dirs))
	for i, w := range dirs {
		claims[i] = []claim{
			{"tasks", w.Tasks, realPath(w.Tasks)},
			{"results", w.Results, realPath(w.Results)},
			{"state", w.State, realPath(w.State)},
		}
	}
	for i, later := range dirs {
		for j, earlier := range dirs[:i] {
			for _, a := range claims[i] {
				for _, b := range claims[j] {
					if overlap(a.real, b.real) {
						s.fail(s.claimed(i, a.key), "%s (%s) of work dir %q and %s (%s) of work dir %q must not be or lie in one another",
							a.key, a.path, later.Name, b.key, b.path, earlier.Name)
					}
				}
			}
			s.neighbours(later, earlier, claims[j])
			s.neighbours(earlier, later, claims[i])
		}
	}
	s.boundTwice()
}

// boundTwice complains of threads that two work dirs bind.
func (s *settler) boundTwice() {
	type binding struct{ workDir, channel string }
	bound := map[string]binding{}
	for i, w := range s.config.WorkDirs {
		for _, channel := range slices.Sorted(maps.Keys(w.ThreadID)) {
			thread := w.ThreadID[channel]
			if other, ok := bound[thread]; ok && other.workDir != w.Name {
				s.fail(s.claimed(i, "thread_id"), "thread %q is bound twice: to channel %q of work dir %q and %q of work dir %q",
					thread, other.channel, other.workDir, channel, w.Name)
			}
			bound[thread] = binding{w.Name, channel}
		}
	}
}

// neighbours warns where an owner of one work dir can write what belongs to
// another. It may be meant: one house with a room apart.
func (s *settler) neighbours(w, other WorkDir, claims []claim) {
	for _, owner := range []string{w.Path, w.Cwd} {
		owner := realPath(owner)
		for _, theirs := range claims {
			if within(theirs.real, owner) {
				s.warn("owners of work dir %q may write in %s, which holds the %s (%s) of work dir %q", w.Name, owner, theirs.key, theirs.path, other.Name)
				return
			}
		}
	}
}

// claimed is where the i-th work dir says key, else its header.
func (s *settler) claimed(i int, key string) found {
	table := s.tables[i]
	if _, ok := s.doc.places[table+"."+key]; ok {
		return s.inFile(table+"."+key, key)
	}
	if _, ok := s.doc.places[table+".path"]; ok {
		return s.inFile(table+".path", "path")
	}
	return found{path: table, key: key, origin: FromDefault, at: s.doc.places[table]}
}

// private returns the directories that no tier may be given to read, nor
// anything that contains them.
func (s *settler) private() []struct{ what, path string } {
	list := []struct{ what, path string }{{"the control socket's directory", filepath.Dir(s.config.Socket)}}
	if s.home != "" && s.home != "/" {
		list = append(list, struct{ what, path string }{"the home directory", s.home})
	}
	for _, w := range s.config.WorkDirs {
		for _, dir := range []struct{ what, path string }{
			{"work dir", w.Path}, {"the tasks of", w.Tasks}, {"the results of", w.Results}, {"the state dir of", w.State},
		} {
			list = append(list, struct{ what, path string }{fmt.Sprintf("%s %q", dir.what, w.Name), dir.path})
		}
	}
	return list
}
