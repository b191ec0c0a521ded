package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scope settles the keys of one work dir.
type scope struct {
	*settler
	own, defaults *WorkDirKeys
	path          string // in the file: workdir[0]; "" when flags alone made it
	found         map[string]found
	notes         []note
	bound         map[string]string // thread id → channel id
}

type note struct {
	f     found
	key   string
	value any
}

// workDirs settles those that will run.
func (s *settler) workDirs() {
	keys := s.doc.keys.WorkDirs
	s.onlyOnce()
	switch key := anyWorkDirKey(&s.flags.WorkDirKeys); {
	case s.flags.Path != nil:
		s.oneWorkDir(keys)
	case len(keys) == 0 && s.doc.file == "":
		s.errs = append(s.errs, &Error{Message: "there is no work dir; give --work DIR, or --config FILE"})
	case len(keys) == 0:
		s.errs = append(s.errs, &Error{
			File: s.doc.file, Message: "there is no work dir; add a [[workdir]] with its path, or give --work DIR",
		})
	case len(keys) > 1 && key != "":
		s.errs = append(s.errs, &Error{Key: key, Message: fmt.Sprintf(
			"%s is for a single work dir and %s has %d; say which one with --work DIR", flagName(key), s.doc.file, len(keys))})
	default:
		for i := range keys {
			s.workDir(&keys[i], fmt.Sprintf("workdir[%d]", i))
		}
	}
	s.apart()
}

// onlyOnce refuses in [defaults] what can be true of one work dir only.
func (s *settler) onlyOnce() {
	d := &s.doc.keys.Defaults
	for _, key := range []struct {
		name string
		set  bool
	}{{"name", d.Name != nil}, {"path", d.Path != nil}, {"state", d.State != nil}, {"thread_id", d.ThreadID != nil}} {
		if key.set {
			f := s.inFile("defaults."+key.name, key.name)
			f.at.value = f.at.key
			s.fail(f, "%s belongs to one work dir; write it under its [[workdir]]", key.name)
		}
	}
}

// oneWorkDir runs the one that --work names.
func (s *settler) oneWorkDir(keys []WorkDirKeys) {
	f := found{key: "path", origin: FromFlag, where: flagName("path")}
	want := s.absolute(f, *s.flags.Path, s.base(f))
	for i := range keys {
		if keys[i].Path == nil {
			continue
		}
		path, err := absolute(*keys[i].Path, filepath.Dir(s.doc.file), s.home)
		if err == nil && realPath(path) == realPath(want) {
			s.workDir(&keys[i], fmt.Sprintf("workdir[%d]", i))
			return
		}
	}
	if len(keys) > 0 {
		s.fail(f, "%s is none of the work dirs of %s", want, s.doc.file)
		return
	}
	s.workDir(&WorkDirKeys{}, "")
}

// choose takes a key's value from the strongest place that has one.
func choose[T any](s *scope, key string, fallback T, get func(*WorkDirKeys) *T) (T, found) {
	value, f := fallback, found{path: s.path, key: key, origin: FromDefault, at: s.doc.places[s.path]}
	if v := get(&s.flags.WorkDirKeys); v != nil {
		value, f = *v, found{key: key, origin: FromFlag, where: flagName(key)}
	} else if v := get(s.own); v != nil {
		value, f = *v, s.inFile(s.path+"."+key, key)
	} else if v := get(s.defaults); v != nil {
		value, f = *v, s.inFile("defaults."+key, key)
	}
	s.found[key] = f
	return value, f
}

// keep is choose for a value that needs no settling, noted as it is.
func keep[T any](s *scope, key string, fallback T, get func(*WorkDirKeys) *T) T {
	value, f := choose(s, key, fallback, get)
	s.notes = append(s.notes, note{f, key, value})
	return value
}

func (s *scope) note(f found, key string, value any) { s.notes = append(s.notes, note{f, key, value}) }

func (s *settler) workDir(own *WorkDirKeys, path string) {
	sc := &scope{settler: s, own: own, defaults: &s.doc.keys.Defaults, path: path, found: map[string]found{}, bound: map[string]string{}}
	if dir, ok := sc.settle(); ok {
		s.config.WorkDirs = append(s.config.WorkDirs, dir)
		s.tables = append(s.tables, path)
		for _, n := range sc.notes {
			s.note(n.f, "workdir."+dir.Name+"."+n.key, n.value)
		}
		sc.apart(dir)
	}
}

func (s *scope) settle() (WorkDir, bool) {
	var w WorkDir
	path, f := choose(s, "path", "", func(k *WorkDirKeys) *string { return k.Path })
	if f.origin == FromDefault {
		s.fail(f, "this work dir has no path")
		return w, false
	}
	if w.Path = s.absolute(f, path, s.base(f)); w.Path == "" {
		return w, false
	}
	name, nf := choose(s, "name", nameFor(w.Path), func(k *WorkDirKeys) *string { return k.Name })
	if !validName(name) {
		s.fail(nf, "name %q: use at most %d letters, digits, dots, dashes and underscores, a letter or digit first", name, maxName)
		return w, false
	}
	for _, other := range s.config.WorkDirs {
		if other.Name == name {
			s.fail(nf, "two work dirs are named %q (%s and %s); give one of them another name", name, other.Path, w.Path)
			return w, false
		}
	}
	w.Name = name
	s.note(nf, "name", name)
	s.note(f, "path", w.Path)

	w.Tasks = s.dir("tasks", "tasks", w.Path, func(k *WorkDirKeys) *string { return k.Tasks })
	w.Results = s.dir("results", "results", w.Path, func(k *WorkDirKeys) *string { return k.Results })
	w.State = s.stateDir(name)
	w.HMACKey = s.dir("hmac_key", "state/auth/task-hmac.key", w.Path, func(k *WorkDirKeys) *string { return k.HMACKey })

	s.codex(&w)
	s.turns(&w)

	roots, f := choose(s, "attachment_roots", nil, func(k *WorkDirKeys) *[]string { return k.AttachmentRoots })
	for _, root := range roots {
		w.AttachmentRoots = append(w.AttachmentRoots, s.absolute(f, root, s.near(f, w.Path)))
	}
	s.note(f, "attachment_roots", w.AttachmentRoots)

	s.limits(&w)
	s.threadID(&w)
	w.UnsafeRootGuests = keep(s, "unsafe_root_guests", false, func(k *WorkDirKeys) *bool { return k.UnsafeRootGuests })
	return w, true
}

// near is where a path starts that belongs to the work dir: there, but for a
// flag, which somebody typed where they stand.
func (s *scope) near(f found, workDir string) string {
	if f.origin == FromFlag {
		return s.base(f)
	}
	return workDir
}

func (s *scope) dir(key, fallback, workDir string, get func(*WorkDirKeys) *string) string {
	path, f := choose(s, key, fallback, get)
	path = s.absolute(f, path, s.near(f, workDir))
	s.note(f, key, path)
	return path
}

// stateDir is told, else what systemd made for the service, else the user's
// state directory.
func (s *scope) stateDir(name string) string {
	path, f := choose(s, "state", "", func(k *WorkDirKeys) *string { return k.State })
	if f.origin != FromDefault {
		path = s.absolute(f, path, s.base(f))
		s.note(f, "state", path)
		return path
	}
	if dirs := s.env(envServiceStateDirs); dirs != "" {
		first, _, _ := strings.Cut(dirs, ":")
		path = filepath.Join(first, name)
		f.origin, f.where = FromEnv, "$"+envServiceStateDirs
	} else if dir := s.env(envStateHome); filepath.IsAbs(dir) {
		path = filepath.Join(dir, appName, name)
		f.origin, f.where = FromEnv, "$"+envStateHome
	} else if s.home != "" {
		path = filepath.Join(s.home, ".local/state", appName, name)
	} else {
		s.fail(f, "no place for the state of %q: $HOME is not set; say where with state, or --state DIR", name)
	}
	s.found["state"] = f
	s.note(f, "state", path)
	return path
}

func (s *scope) codex(w *WorkDir) {
	program, f := choose(s, "codex", any(DefaultCodex), func(k *WorkDirKeys) *any {
		if k.Codex == nil {
			return nil
		}
		return &k.Codex
	})
	w.Codex = stringList(program)
	if len(w.Codex) == 0 || slices.Contains(w.Codex, "") {
		s.fail(f, "codex wants a program, or a list of a program and its arguments")
	} else if strings.Contains(w.Codex[0], "/") || w.Codex[0] == "~" {
		// With a slash it is a file and not a name to look up in PATH.
		w.Codex[0] = s.absolute(f, w.Codex[0], s.base(f))
	}
	s.note(f, "codex", w.Codex)

	w.Server = keep(s, "server", "", func(k *WorkDirKeys) *string { return k.Server })
	if w.Server != "" {
		s.fail(s.found["server"], "server is reserved: the service starts its own app-server and cannot join one that runs already")
	}

	home, f := choose(s, "codex_home", CodexHomePrivate, func(k *WorkDirKeys) *string { return k.CodexHome })
	switch home {
	case CodexHomePrivate, CodexHomeInherit:
	default:
		home = s.absolute(f, home, s.base(f))
	}
	w.CodexHome = home
	s.note(f, "codex_home", home)

	from, f := choose(s, "codex_home_from", "", func(k *WorkDirKeys) *string { return k.CodexHomeFrom })
	if from != "" {
		from = s.absolute(f, from, s.base(f))
	}
	w.CodexHomeFrom = from
	s.note(f, "codex_home_from", from)

	w.EnvPass, f = choose(s, "env_pass", nil, func(k *WorkDirKeys) *[]string { return k.EnvPass })
	for _, name := range w.EnvPass {
		if name == "" || strings.ContainsAny(name, "= \t\n\x00") {
			s.fail(f, "env_pass %q is no name of a variable", name)
		}
	}
	s.note(f, "env_pass", w.EnvPass)

	w.ShellEnv, f = choose(s, "shell_env", ShellEnvCore, func(k *WorkDirKeys) *string { return k.ShellEnv })
	s.word(f, w.ShellEnv, ShellEnvCore, ShellEnvLogin)
	s.note(f, "shell_env", w.ShellEnv)
}

func (s *scope) turns(w *WorkDir) {
	w.Model = keep(s, "model", "", func(k *WorkDirKeys) *string { return k.Model })

	var f found
	w.Sandbox, f = choose(s, "sandbox", SandboxReadOnly, func(k *WorkDirKeys) *string { return k.Sandbox })
	s.word(f, w.Sandbox, SandboxReadOnly, SandboxWorkspaceWrite, SandboxFullAccess)
	s.note(f, "sandbox", w.Sandbox)

	w.Cwd = s.dir("cwd", ".", w.Path, func(k *WorkDirKeys) *string { return k.Cwd })

	w.TurnTimeout = s.positive("turn_timeout", Duration{DefaultTurnTimeout}, func(k *WorkDirKeys) *Duration { return k.TurnTimeout })
	w.InterruptGrace = s.positive("interrupt_grace", Duration{DefaultInterruptGrace}, func(k *WorkDirKeys) *Duration { return k.InterruptGrace })
	w.QuietAfter = s.positive("quiet_after", Duration{DefaultQuietAfter}, func(k *WorkDirKeys) *Duration { return k.QuietAfter })
	w.ReplaceDrain = keep(s, "replace_drain", Duration{DefaultReplaceDrain}, func(k *WorkDirKeys) *Duration { return k.ReplaceDrain }).Duration
	w.StartTimeout = s.positive("start_timeout", Duration{DefaultStartTimeout}, func(k *WorkDirKeys) *Duration { return k.StartTimeout })

	w.MaxTurns = keep(s, "max_turns", DefaultMaxTurns, func(k *WorkDirKeys) *int { return k.MaxTurns })
	if w.MaxTurns < 1 {
		s.fail(s.found["max_turns"], "max_turns is %d; at least one turn must be able to run", w.MaxTurns)
	}
	w.Ageing = s.positive("ageing", Duration{DefaultAgeing}, func(k *WorkDirKeys) *Duration { return k.Ageing })

	w.Envelope, f = choose(s, "envelope", EnvelopeAuto, func(k *WorkDirKeys) *string { return k.Envelope })
	s.word(f, w.Envelope, EnvelopeAuto, EnvelopeAccept, EnvelopeLayout, EnvelopeStrict)
	s.note(f, "envelope", w.Envelope)
}

// minResultBytes leaves room for the note that says where the rest is.
const minResultBytes = 1024

func (s *scope) limits(w *WorkDir) {
	w.MaxResultBytes = keep(s, "max_result_bytes", ByteSize{DefaultMaxResultBytes}, func(k *WorkDirKeys) *ByteSize { return k.MaxResultBytes }).Bytes
	if w.MaxResultBytes < minResultBytes {
		s.fail(s.found["max_result_bytes"], "max_result_bytes is %d; it must be at least %d, so that a cut reply can say where the rest is",
			w.MaxResultBytes, minResultBytes)
	}
	w.MaxThreadBytes = keep(s, "max_thread_bytes", ByteSize{}, func(k *WorkDirKeys) *ByteSize { return k.MaxThreadBytes }).Bytes
	w.MaxChildRSS = keep(s, "max_child_rss", ByteSize{}, func(k *WorkDirKeys) *ByteSize { return k.MaxChildRSS }).Bytes
	w.DoneRetention = keep(s, "done_retention", Duration{DefaultDoneRetention}, func(k *WorkDirKeys) *Duration { return k.DoneRetention }).Duration
	w.MaxBacklogAge = s.positive("max_backlog_age", Duration{DefaultMaxBacklogAge}, func(k *WorkDirKeys) *Duration { return k.MaxBacklogAge })
	w.IdleExit = keep(s, "idle_exit", Duration{}, func(k *WorkDirKeys) *Duration { return k.IdleExit }).Duration
	w.WarmSpare = keep(s, "warm_spare", false, func(k *WorkDirKeys) *bool { return k.WarmSpare })
}

func (s *scope) positive(key string, fallback Duration, get func(*WorkDirKeys) *Duration) time.Duration {
	v := keep(s, key, fallback, get)
	if v.Duration <= 0 {
		s.fail(s.found[key], "%s must be longer than nothing", key)
	}
	return v.Duration
}

// threadID reads a table, or a list of CHANNEL=THREAD. A channel may hold "="
// only in the table; a thread id never does.
func (s *scope) threadID(w *WorkDir) {
	value, f := choose(s, "thread_id", nil, func(k *WorkDirKeys) *any {
		if k.ThreadID == nil {
			return nil
		}
		return &k.ThreadID
	})
	w.ThreadID = map[string]string{}
	defer func() { s.note(f, "thread_id", maps.Clone(w.ThreadID)) }()
	switch value := value.(type) {
	case nil:
	case map[string]any:
		for _, channel := range slices.Sorted(maps.Keys(value)) {
			thread, ok := value[channel].(string)
			if !ok {
				s.fail(f, "thread_id wants a thread id as text for channel %q", channel)
				continue
			}
			s.bind(f, w, channel, thread)
		}
	default:
		list := stringList(value)
		if list == nil {
			s.fail(f, "thread_id wants a table of channel = \"thread\", or a list of \"CHANNEL=THREAD\"")
		}
		for _, pair := range list {
			channel, thread, ok := strings.Cut(pair, "=")
			if !ok {
				s.fail(f, "thread_id %q is not CHANNEL=THREAD", pair)
				continue
			}
			s.bind(f, w, channel, thread)
		}
	}
}

// bind refuses what would let two rooms share a memory.
func (s *scope) bind(f found, w *WorkDir, channel, thread string) {
	if channel == "" || thread == "" || strings.ContainsFunc(thread, func(r rune) bool { return r <= ' ' || r == '/' }) {
		s.fail(f, "thread_id %q = %q: both a channel and a thread id are needed", channel, thread)
		return
	}
	if other, ok := w.ThreadID[channel]; ok && other != thread {
		s.fail(f, "thread_id binds channel %q to two threads", channel)
	}
	if other, ok := s.bound[thread]; ok && other != channel {
		s.fail(f, "thread_id binds thread %q to two channels, %q and %q, which would share their memory", thread, other, channel)
	}
	s.bound[thread] = channel
	w.ThreadID[channel] = thread
}

// stringList is a string or a list of strings as a list, else nil.
func stringList(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []string:
		return slices.Clone(v)
	case []any:
		list := make([]string, len(v))
		for i, one := range v {
			s, ok := one.(string)
			if !ok {
				return nil
			}
			list[i] = s
		}
		return list
	}
	return nil
}
