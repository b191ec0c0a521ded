package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// Mode is what an owner's turn may do. Other tiers have no mode: they are
// read-only and read-confined whatever is configured here.
type Mode string

// The three modes, named as in Codex. ReadOnly is the default.
const (
	ReadOnly       Mode = "read-only"
	WorkspaceWrite Mode = "workspace-write"
	FullAccess     Mode = "danger-full-access"
)

// Values of [Options.ShellEnv].
const (
	// ShellEnvCore gives commands a core environment and no login shell, which
	// makes a new thread about 20 times cheaper (35 ms against 577 ms, codex
	// app-server 0.171.0, measured).
	ShellEnvCore = "core"
	// ShellEnvLogin gives owners Codex's own default: login shell and snapshot.
	ShellEnvLogin = "login"
)

// Options say what one work dir's policy is made of. All paths are absolute.
type Options struct {
	// Mode is the owners' sandbox; default ReadOnly.
	Mode Mode
	// Work is the work dir; Cwd is where owner threads run, default Work.
	Work, Cwd string
	// Tasks and Results are the inbox and the outbox; defaults below Work.
	Tasks, Results string
	// State is the state dir, CodexHome the CODEX_HOME of the child.
	State, CodexHome string
	// CodexBinary is the native codex program, the only file outside the room
	// and the system minimum that a guest's sandbox needs.
	CodexBinary string
	// Deny are files of ours (configuration, keys) that no guest may read,
	// also where they lie in a directory that guests may read, such as /etc.
	Deny []string
	// Private are more directories that no tier's Read path may contain or lie
	// in: other work dirs, the control socket's dir, the user's own CODEX_HOME.
	Private []string
	// Read adds readable paths per non-owner tier.
	Read map[task.Tier][]string
	// Model is the model of all tiers, TierModel of one; "" is Codex's own.
	Model     string
	TierModel map[task.Tier]string
	// ShellEnv is "core" (default) or "login"; it applies to owners only.
	ShellEnv string
	// DeveloperInstructions go to owner threads; "" leaves Codex's configured
	// ones in force. See [Home.Instructions].
	DeveloperInstructions string
	// UID is the uid that the child runs as. The zero value is root, for which
	// non-owner work is refused: whoever forgets to set it gets the safe answer.
	UID int
	// UnsafeRootGuests allows non-owner work as uid 0, where a guest can write
	// sysctls (codex app-server 0.171.0, measured).
	UnsafeRootGuests bool
	// StubChild says that the child is the built-in stub, which runs no command
	// at all: there is nothing to confine or to prove, and uid 0 does no harm.
	StubChild bool
}

// Policy is what the tiers of one work dir may do. It is immutable.
type Policy struct {
	opts Options
	// read holds the resolved Read paths of each non-owner tier, sorted.
	read map[task.Tier][]string
}

// OptionError names the option that cannot be used.
type OptionError struct{ Option, Value, Why string }

// Error implements error.
func (e *OptionError) Error() string { return fmt.Sprintf("%s %q: %s", e.Option, e.Value, e.Why) }

// ReadPathError names a readable path of a tier that cannot be granted.
type ReadPathError struct {
	Tier      task.Tier
	Path, Why string
}

// Error implements error.
func (e *ReadPathError) Error() string {
	return fmt.Sprintf("tiers.%s.read %q: %s", e.Tier, e.Path, e.Why)
}

// New checks the options. Every path that is granted or denied must be one
// that Codex takes literally.
func New(opts Options) (*Policy, error) {
	if opts.Mode == "" {
		opts.Mode = ReadOnly
	}
	if opts.ShellEnv == "" {
		opts.ShellEnv = ShellEnvCore
	}
	if opts.Cwd == "" {
		opts.Cwd = opts.Work
	}
	if opts.Tasks == "" {
		opts.Tasks = filepath.Join(opts.Work, "tasks")
	}
	if opts.Results == "" {
		opts.Results = filepath.Join(opts.Work, "results")
	}
	// A key that is not configured is no file to deny.
	opts.Deny = slices.DeleteFunc(slices.Clone(opts.Deny), func(path string) bool { return path == "" })
	if err := opts.validate(); err != nil {
		return nil, err
	}
	p := &Policy{opts: opts, read: map[task.Tier][]string{}}
	for tier, paths := range opts.Read {
		if tier == task.Owner {
			return nil, &ReadPathError{tier, strings.Join(paths, ", "), "owners are not read-confined"}
		}
		if !slices.Contains(task.AllTiers(), tier) {
			return nil, &ReadPathError{tier, strings.Join(paths, ", "), "no such tier"}
		}
		for _, path := range paths {
			granted, err := opts.grant(tier, path)
			if err != nil {
				return nil, err
			}
			p.read[tier] = append(p.read[tier], granted...)
		}
		slices.Sort(p.read[tier])
		p.read[tier] = slices.Compact(p.read[tier])
	}
	return p, nil
}

func (o Options) validate() error {
	switch o.Mode {
	case ReadOnly, WorkspaceWrite, FullAccess:
	default:
		return &OptionError{"sandbox", string(o.Mode), "use read-only, workspace-write or danger-full-access"}
	}
	switch o.ShellEnv {
	case ShellEnvCore, ShellEnvLogin:
	default:
		return &OptionError{"shell_env", o.ShellEnv, `use "core" or "login"`}
	}
	paths := []struct{ option, value string }{
		{"path", o.Work},
		{"cwd", o.Cwd},
		{"tasks", o.Tasks},
		{"results", o.Results},
		{"state", o.State},
		{"codex_home", o.CodexHome},
		{"codex", o.CodexBinary},
	}
	for _, deny := range o.Deny {
		paths = append(paths, struct{ option, value string }{"config file", deny})
	}
	for _, p := range paths {
		if why := unusable(p.value); why != "" {
			return &OptionError{p.option, p.value, why}
		}
	}
	return nil
}

// globs are the characters that make Codex read a profile's path as a pattern
// ("only supports `deny` access", codex app-server 0.171.0, measured). A deny
// rule that means another file than its name would fail open.
const globs = "*?[]"

// unusable says why a path cannot stand in a profile, or "".
func unusable(path string) string {
	switch {
	case path == "":
		return "is not set"
	case !filepath.IsAbs(path):
		return "is not an absolute path"
	case !utf8.ValidString(path):
		return "is not valid UTF-8, which Codex's configuration cannot express"
	case strings.ContainsAny(path, globs):
		return "contains one of " + globs + ", which Codex reads as a pattern"
	case strings.ContainsFunc(path, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "contains a control character"
	}
	return ""
}

// grant resolves one readable path of a tier and refuses it where it would
// open the house. Both spellings are granted where a symlink leads to the
// path, since the sandbox shows what is named.
func (o Options) grant(tier task.Tier, path string) ([]string, error) {
	written := path // as configured, so that its line can be found
	refuse := func(why string) ([]string, error) { return nil, &ReadPathError{tier, written, why} }
	if why := unusable(path); why != "" {
		return refuse(why)
	}
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("does not exist")
	case err != nil:
		return refuse(err.Error())
	}
	if why := unusable(real); why != "" {
		return refuse("leads to " + real + ", which " + why)
	}
	house := []struct{ name, path string }{
		{"work dir", o.Work},
		{"cwd", o.Cwd},
		{"tasks dir", o.Tasks},
		{"results dir", o.Results},
		{"state dir", o.State},
		{"CODEX_HOME", o.CodexHome},
	}
	for _, p := range o.Private {
		house = append(house, struct{ name, path string }{"private dir", p})
	}
	for _, deny := range o.Deny {
		house = append(house, struct{ name, path string }{"secret file", deny})
	}
	for _, h := range house {
		if h.path == "" {
			continue
		}
		theirs := resolve(h.path)
		switch {
		case inside(theirs, real) || inside(filepath.Clean(h.path), path):
			// A secret file below a granted dir is closed by its deny rule.
			if h.name != "secret file" || real == theirs {
				return refuse("contains the " + h.name + " " + h.path)
			}
		case inside(real, theirs) || inside(path, filepath.Clean(h.path)):
			return refuse("lies in the " + h.name + " " + h.path)
		}
	}
	if real != path {
		return []string{path, real}, nil
	}
	return []string{path}, nil
}

// inside reports whether path is dir or lies below it; both are clean.
func inside(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(os.PathSeparator))
}

// resolve follows the symlinks of as much of a path as exists.
func resolve(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	parent := filepath.Dir(path)
	if parent == path {
		return path
	}
	return filepath.Join(resolve(parent), filepath.Base(path))
}

// Notes are sentences that an operator should read at start and in status.
func (p *Policy) Notes() []string {
	var notes []string
	if p.opts.Mode == FullAccess {
		notes = append(notes, "sandbox danger-full-access: an owner's turn can do whatever the service's user can, the state dir and other rooms' results included; nothing here is a boundary against it")
	}
	if p.opts.UID == 0 && !p.opts.StubChild {
		if p.opts.UnsafeRootGuests {
			notes = append(notes, "unsafe_root_guests: guests run as uid 0 and can change kernel settings of this machine")
		} else {
			notes = append(notes, "running as uid 0: only owner tasks run; use a user of its own for the service, or set unsafe_root_guests = true")
		}
	}
	return notes
}
