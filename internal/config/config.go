package config

import (
	"fmt"
	"os"
	"time"
)

// Config is everything the service is told, settled.
type Config struct {
	// File is the absolute path of what was read, "" for flags alone.
	File string
	// Listen is the address of metrics and status page; "" for neither.
	Listen string
	// Socket is the path of the control socket.
	Socket string
	Log    Log
	Web    Web
	// DrainTimeout is how long a stop waits for running turns.
	DrainTimeout time.Duration
	// WorkDirs is never empty; names are unique.
	WorkDirs []WorkDir
	// Tiers has an entry for each of team, guest and ambient.
	Tiers map[string]Tier
	// Warnings are what works but should be known, one sentence each.
	Warnings []string

	settings []Setting
}

// Log says what is logged and how.
type Log struct{ Level, Format string }

// Web is the status page.
type Web struct{ ShowText bool }

// WorkDir is one work dir. All paths are absolute and clean.
type WorkDir struct {
	Name    string // also a directory name and a metric label
	Path    string
	Tasks   string
	Results string
	State   string // of its own, apart from what an owner's turn may write
	HMACKey string // need not exist

	Codex         []string // program and leading arguments
	Server        string   // "" = start one
	CodexHome     string   // CodexHomePrivate, CodexHomeInherit or a path
	CodexHomeFrom string   // "" = $CODEX_HOME, else ~/.codex
	EnvPass       []string
	ShellEnv      string

	Model    string // "" = Codex's own choice
	Sandbox  string
	Cwd      string
	Envelope string

	TurnTimeout    time.Duration
	InterruptGrace time.Duration
	QuietAfter     time.Duration
	ReplaceDrain   time.Duration
	StartTimeout   time.Duration
	MaxTurns       int
	Ageing         time.Duration

	AttachmentRoots []string
	MaxResultBytes  int64
	MaxThreadBytes  int64 // 0 = no limit
	MaxChildRSS     int64 // 0 = no limit
	DoneRetention   time.Duration
	MaxBacklogAge   time.Duration
	IdleExit        time.Duration // 0 = never
	WarmSpare       bool

	ThreadID         map[string]string // channel id → thread id
	UnsafeRootGuests bool
}

// Tier limits the turns of one non-owner tier.
type Tier struct {
	Enabled     bool
	Read        []string // absolute paths that its turns may read besides their room
	Model       string   // "" = the work dir's
	TurnTimeout time.Duration
	MaxTurns    int // 0 = no limit of its own
	Rate        Rate
}

// Load reads the file at path, lays flags over it and settles everything. With
// an empty path the flags alone make the one work dir. The error is an [Errors]
// when it is about what was written rather than about reading it.
func Load(path string, flags Overlay, env func(string) string) (*Config, error) {
	if path == "" {
		return settle(&document{}, flags, env, os.Geteuid())
	}
	doc, err := readDocument(path)
	if err != nil {
		return nil, err
	}
	return settle(doc, flags, env, os.Geteuid())
}

// SingleWorkDir is the configuration of `run --work DIR` without a file.
func SingleWorkDir(flags Overlay, env func(string) string) (*Config, error) {
	return Load("", flags, env)
}

// Parse is [Load] on text that was read already. name stands in errors, and
// relative paths start at its directory.
func Parse(name string, text []byte, flags Overlay, env func(string) string) (*Config, error) {
	doc, err := parseDocument(name, text)
	if err != nil {
		return nil, err
	}
	return settle(doc, flags, env, os.Geteuid())
}

func readDocument(path string) (*document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	doc, err := parseDocument(path, text)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		doc.warnings = append(doc.warnings, fmt.Sprintf(
			"%s can be written by others (mode %04o): whoever does so decides what runs here; chmod go-w it", path, mode))
	}
	return doc, nil
}
