package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

func TestStateDir(t *testing.T) {
	for name, c := range map[string]struct {
		env  []string
		want string // state dir, or the error after "error: "
	}{
		"Home":      {nil, "/home/u/.local/state/codex-supervisor/a"},
		"XDG":       {[]string{"XDG_STATE_HOME", "/xdg"}, "/xdg/codex-supervisor/a"},
		"Relative":  {[]string{"XDG_STATE_HOME", "xdg"}, "/home/u/.local/state/codex-supervisor/a"},
		"Systemd":   {[]string{"XDG_STATE_HOME", "/xdg", "STATE_DIRECTORY", "/var/lib/codex-supervisor:/var/lib/y"}, "/var/lib/codex-supervisor/a"},
		"Nowhere":   {[]string{"HOME", ""}, "error: no place for the state of \"a\": $HOME is not set; say where with state, or --state DIR"},
		"InWorkDir": {[]string{"STATE_DIRECTORY", "/srv/a/x"}, "error: the state dir /srv/a/x/a of work dir \"a\" would lie in its work dir /srv/a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := config.Parse("/etc/c.toml", []byte("[[workdir]]\npath = \"/srv/a\"\n"), config.Overlay{}, environ(c.env...))
			if want, fails := strings.CutPrefix(c.want, "error: "); fails {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q", err, want)
				}
			} else if err != nil || got.WorkDirs[0].State != c.want {
				t.Errorf("%+v, %v, want %s", got, err, c.want)
			}
		})
	}
}

func TestSocket(t *testing.T) {
	for name, c := range map[string]struct {
		env        []string
		file       string
		flag       *string
		want       string
		candidates []string
	}{
		"Runtime": {
			nil, "", nil, "/run/user/7/codex-supervisor/control.sock",
			[]string{"/run/user/7/codex-supervisor/control.sock", "/run/codex-supervisor/control.sock", "/home/u/.local/state/codex-supervisor/control.sock"},
		},
		"Service": {
			[]string{"RUNTIME_DIRECTORY", "/run/codex-supervisor:/run/x", "HOME", ""},
			"", nil, "/run/codex-supervisor/control.sock",
			[]string{"/run/user/7/codex-supervisor/control.sock", "/run/codex-supervisor/control.sock"},
		},
		"NoRuntimeNoHome": {
			[]string{"XDG_RUNTIME_DIR", "", "HOME", ""},
			"", nil, "/run/codex-supervisor/control.sock",
			[]string{"/run/codex-supervisor/control.sock"},
		},
		"EnvOverFile": {[]string{config.EnvSocket, "/e.sock"}, "socket = \"/f.sock\"\n", nil, "/e.sock", []string{"/e.sock"}},
		"File":        {nil, "socket = \"/f.sock\"\n", nil, "/f.sock", nil},
		"FlagOverEnv": {[]string{config.EnvSocket, "/e.sock"}, "socket = \"/f.sock\"\n", ptr("/g.sock"), "/g.sock", []string{"/e.sock"}},
	} {
		t.Run(name, func(t *testing.T) {
			env := environ(c.env...)
			got := mustParse(t, c.file+"[[workdir]]\npath = \"/srv/a\"\nstate = \"/var/lib/a\"\n", config.Overlay{Socket: c.flag}, env)
			if got.Socket != c.want {
				t.Errorf("socket %s, want %s", got.Socket, c.want)
			}
			if found := config.SocketCandidates(env); c.candidates != nil && !slices.Equal(found, c.candidates) {
				t.Errorf("candidates %q, want %q", found, c.candidates)
			}
			if c.flag == nil && c.file == "" && !slices.Contains(config.SocketCandidates(env), got.Socket) {
				t.Errorf("no client would look at %s", got.Socket)
			}
		})
	}
}

// TestApart_Symlinks names one directory by two paths, before and after it is
// made.
func TestApart_Symlinks(t *testing.T) {
	dir := t.TempDir()
	for _, link := range [][2]string{{"real", "link"}, {"missing/in", "dangling"}, {"loop", "loop"}} {
		if err := os.Symlink(link[0], filepath.Join(dir, link[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b    string
		overlap bool
	}{
		{"real", "link/deeper", true},
		{"missing", "dangling", true},
		{"missing/in/x", "dangling", true},
		{"real", "real2", false},
		{"..real", "real", false},
		{"loop", "real", false},
	} {
		text := "[[workdir]]\npath = \"/srv/a\"\nstate = \"/var/lib/a\"\ntasks = '" + filepath.Join(dir, c.a) + "'\nresults = '" + filepath.Join(dir, c.b) + "'\n"
		_, err := config.Parse("/etc/c.toml", []byte(text), config.Overlay{}, environ())
		if got := err != nil && strings.Contains(err.Error(), "must not be or lie in one another"); got != c.overlap {
			t.Errorf("%s and %s: %v, want overlap %v", c.a, c.b, err, c.overlap)
		}
	}
}
