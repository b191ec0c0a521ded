package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Values of [HomeOptions.Mode] besides a path.
const (
	HomePrivate = "private"
	HomeInherit = "inherit"
)

// homeDir is the private CODEX_HOME below the state dir.
const homeDir = "codex-home"

// HomeOptions say which CODEX_HOME a child gets.
type HomeOptions struct {
	// Mode is HomePrivate (default), HomeInherit or the path of a home.
	Mode string
	// From is the user's CODEX_HOME; default $CODEX_HOME, else ~/.codex.
	From string
	// State is the state dir, in which a private home lies.
	State string
}

// Home is a prepared CODEX_HOME.
type Home struct {
	// Dir is the CODEX_HOME of the child, From the user's own.
	Dir, From string
	// Private says that Dir is ours: no AGENTS.md, configuration copied.
	Private bool
	// AgentsMD is the text of the user's AGENTS.md. It is filled for a private
	// home only; in any other Codex reads the file itself.
	AgentsMD string
	// Instructions are what owner threads are given as developer instructions:
	// the configured ones, then AGENTS.md. "" when there is no AGENTS.md, which
	// leaves the configured ones in force by themselves.
	Instructions string
	// Auth is the file that a login writes, to be watched for changes.
	Auth string
}

// links are the files and directories that a private home shares with the
// user's. A login or a token refresh in either place must reach both: refresh
// tokens are single-use, so a copy would log one of them out.
var links = [...]struct {
	name string
	// always links also to what is not there yet, so that the first login lands
	// in the user's home. Codex makes the directories itself where they are
	// missing, and a dangling link would be in its way.
	always bool
}{
	{"auth.json", true},
	{".credentials.json", true},
	{"skills", false},
	{"rules", false},
	{"plugins", false},
}

// PrepareHome makes the CODEX_HOME of a child ready. For a private one it is
// called before each start: the configuration is copied again.
func PrepareHome(o HomeOptions) (Home, error) {
	from, err := userHome(o.From)
	if err != nil {
		return Home{}, fmt.Errorf("find the user's CODEX_HOME: %w", err)
	}
	switch o.Mode {
	case HomePrivate, "":
		home, err := preparePrivate(from, filepath.Join(o.State, homeDir))
		if err != nil {
			return Home{}, fmt.Errorf("prepare private CODEX_HOME: %w", err)
		}
		return home, nil
	case HomeInherit:
		return openHome(from, from)
	default:
		if !filepath.IsAbs(o.Mode) {
			return Home{}, &OptionError{"codex_home", o.Mode, `use "private", "inherit" or an absolute path`}
		}
		return openHome(filepath.Clean(o.Mode), from)
	}
}

func userHome(from string) (string, error) {
	if from == "" {
		from = os.Getenv("CODEX_HOME")
	}
	if from == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		from = filepath.Join(home, ".codex")
	}
	return filepath.Abs(from)
}

// openHome uses a home that is not ours as it is. Codex wants it to exist.
func openHome(dir, from string) (Home, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Home{}, fmt.Errorf("open CODEX_HOME: %w", err)
	}
	return Home{Dir: dir, From: from, Auth: filepath.Join(dir, "auth.json")}, nil
}

func preparePrivate(from, dir string) (Home, error) {
	if resolve(from) == resolve(dir) {
		return Home{}, &OptionError{"codex_home_from", from, "is the private CODEX_HOME itself"}
	}
	if err := privateDir(dir); err != nil {
		return Home{}, err
	}
	home := Home{Dir: dir, From: from, Private: true, Auth: filepath.Join(from, "auth.json")}
	for _, l := range links {
		if err := link(filepath.Join(from, l.name), filepath.Join(dir, l.name), l.always); err != nil {
			return Home{}, err
		}
	}
	// An AGENTS.md here would stand in every guest's prompt, whatever the
	// profile says (codex app-server 0.171.0, measured).
	for _, name := range []string{"AGENTS.md", "AGENTS.override.md"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Home{}, err
		}
	}
	config, err := copyConfig(filepath.Join(from, "config.toml"), filepath.Join(dir, "config.toml"))
	if err != nil {
		return Home{}, err
	}
	if err := linkReferences(config, from, dir); err != nil {
		return Home{}, err
	}
	if home.AgentsMD, err = agentsMD(from); err != nil {
		return Home{}, err
	}
	if home.AgentsMD != "" {
		home.Instructions = strings.TrimSpace(configured(config) + "\n\n" + home.AgentsMD)
	}
	return home, nil
}

// link points path at target. What lies there and is no link of ours stays: it
// may be a login that was made in the private home.
func link(target, path string, always bool) error {
	_, err := os.Stat(target)
	present := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		if old, err := os.Readlink(path); err == nil && old == target && (present || always) {
			return nil
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	case present && info.IsDir():
		// Codex fills a missing skills directory with its own `.system` ones;
		// that much is no content of the user's.
		if err := os.RemoveAll(filepath.Join(path, ".system")); err != nil {
			return err
		}
		if err := os.Remove(path); err != nil {
			return nil // not empty: somebody's
		}
	default:
		return nil
	}
	if !present && !always {
		return nil
	}
	return os.Symlink(target, path)
}

// copyConfig copies the configuration. It is not linked because Codex writes
// into it (trusted projects), through a link into the user's own file.
func copyConfig(src, dst string) ([]byte, error) {
	text, err := os.ReadFile(src)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Remove(dst); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return text, replaceFile(dst, strings.NewReader(string(text)))
}

// replaceFile puts a file in place whole or not at all, readable by us alone.
func replaceFile(path string, from io.Reader) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = io.Copy(tmp, from)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}

// agentsMD reads the user's personal instructions; Codex prefers the override.
func agentsMD(from string) (string, error) {
	for _, name := range []string{"AGENTS.override.md", "AGENTS.md"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		if s := strings.TrimSpace(strings.ToValidUTF8(string(text), "\uFFFD")); s != "" {
			return s, nil
		}
	}
	return "", nil
}

// configured reads the developer instructions of a configuration, which ours
// would replace. A configuration that does not parse has none: Codex says so
// itself when a thread is started.
func configured(config []byte) string {
	var c struct {
		DeveloperInstructions string `toml:"developer_instructions"`
	}
	if toml.Unmarshal(config, &c) != nil {
		return ""
	}
	return strings.TrimSpace(c.DeveloperInstructions)
}
