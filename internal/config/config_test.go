package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

func mustParse(tb testing.TB, text string, flags config.Overlay, env func(string) string) *config.Config {
	tb.Helper()
	c, err := config.Parse("/etc/codex-supervisor.toml", []byte(text), flags, env)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func ptr[T any](v T) *T { return &v }

func duration(d time.Duration) *config.Duration { return &config.Duration{Duration: d} }

func TestParse_Defaults(t *testing.T) {
	c := mustParse(t, "[[workdir]]\npath = \"/srv/a\"\n", config.Overlay{}, environ())
	want := config.WorkDir{
		Name: "a", Path: "/srv/a", Tasks: "/srv/a/tasks", Results: "/srv/a/results",
		State: "/home/u/.local/state/codex-supervisor/a", HMACKey: "/srv/a/state/auth/task-hmac.key",
		Codex: []string{"codex"}, CodexHome: "private", ShellEnv: "core",
		Sandbox: "read-only", Cwd: "/srv/a", Envelope: "auto",
		TurnTimeout: 6 * time.Hour, InterruptGrace: 10 * time.Second, QuietAfter: 2 * time.Minute,
		ReplaceDrain: 30 * time.Second, StartTimeout: time.Minute, MaxTurns: 4, Ageing: 5 * time.Minute,
		MaxResultBytes: 49152, DoneRetention: 2160 * time.Hour, MaxBacklogAge: 24 * time.Hour,
		ThreadID: map[string]string{},
	}
	if len(c.WorkDirs) != 1 || !reflect.DeepEqual(c.WorkDirs[0], want) {
		t.Errorf("work dirs\n%+v\nwant\n%+v", c.WorkDirs, want)
	}
	tier := config.Tier{Enabled: true, TurnTimeout: 10 * time.Minute}
	for _, name := range []string{"team", "guest", "ambient"} {
		if !reflect.DeepEqual(c.Tiers[name], tier) {
			t.Errorf("tier %s is %+v, want %+v", name, c.Tiers[name], tier)
		}
	}
	if c.File != "/etc/codex-supervisor.toml" || c.Listen != "127.0.0.1:9464" || c.DrainTimeout != 30*time.Second ||
		c.Log != (config.Log{Level: "info", Format: "auto"}) || c.Web.ShowText ||
		c.Socket != "/run/user/7/codex-supervisor/control.sock" || len(c.Warnings) > 0 {
		t.Errorf("service %+v", c)
	}
}

const full = `
listen = "localhost:80"
socket = "run/control.sock"
drain_timeout = "1m30s"
log.level = "debug"
log.format = "json"
[web]
show_text = true

[defaults]
tasks = "inbox"
results = "../out"
hmac_key = "key"
attachment_roots = ["media", "~/shared"]
codex = ["./codex-wrapper", "-v"]
turn_timeout = "1h"
max_child_rss = "2GiB"
sandbox = "workspace-write"
model = "large"

[[workdir]]
path = "work/one"
state = "state/one"
codex_home = "homes/one"
codex_home_from = "~/.codex-one"
env_pass = ["HTTPS_PROXY"]
shell_env = "login"
cwd = "src"
envelope = "strict"
interrupt_grace = "3s"
quiet_after = "40s"
replace_drain = "0s"
start_timeout = "2m"
max_turns = 9
ageing = "1s"
max_result_bytes = 2048
max_thread_bytes = "5MB"
done_retention = "1h"
max_backlog_age = "2h"
idle_exit = "30m"
warm_spare = true
unsafe_root_guests = true
[workdir.thread_id]
"!a=b:host" = "0199-x"

[[workdir]]
name = "second"
path = "/work/two"
results = "answers"
model = "small"
codex = "codex-beta"
codex_home = "inherit"
thread_id = ["!a=b:host=c", "plain=0199-y"]

[tiers.team]
read = ["/usr/share/doc", "docs"]
model = "tiny"
turn_timeout = "1m"
max_turns = 2
rate = "30/h"
[tiers.ambient]
enabled = false
`

func TestParse_Everything(t *testing.T) {
	// "!a=b:host=c" splits at the first "=", so it cannot be the channel of
	// the first work dir, which the table wrote.
	c := mustParse(t, full, config.Overlay{}, environ("HOME", "/home/u"))
	one := config.WorkDir{
		Name: "one", Path: "/etc/work/one", Tasks: "/etc/work/one/inbox", Results: "/etc/work/out",
		State: "/etc/state/one", HMACKey: "/etc/work/one/key",
		Codex: []string{"/etc/codex-wrapper", "-v"}, CodexHome: "/etc/homes/one", CodexHomeFrom: "/home/u/.codex-one",
		EnvPass: []string{"HTTPS_PROXY"}, ShellEnv: "login",
		Model: "large", Sandbox: "workspace-write", Cwd: "/etc/work/one/src", Envelope: "strict",
		TurnTimeout: time.Hour, InterruptGrace: 3 * time.Second, QuietAfter: 40 * time.Second,
		StartTimeout: 2 * time.Minute, MaxTurns: 9, Ageing: time.Second,
		AttachmentRoots: []string{"/etc/work/one/media", "/home/u/shared"},
		MaxResultBytes:  2048, MaxThreadBytes: 5e6, MaxChildRSS: 2 << 30,
		DoneRetention: time.Hour, MaxBacklogAge: 2 * time.Hour, IdleExit: 30 * time.Minute, WarmSpare: true,
		ThreadID: map[string]string{"!a=b:host": "0199-x"}, UnsafeRootGuests: true,
	}
	if !reflect.DeepEqual(c.WorkDirs[0], one) {
		t.Errorf("first work dir\n%+v\nwant\n%+v", c.WorkDirs[0], one)
	}
	two := c.WorkDirs[1]
	if two.Name != "second" || two.Tasks != "/work/two/inbox" || two.Results != "/work/two/answers" || two.Model != "small" ||
		!slices.Equal(two.Codex, []string{"codex-beta"}) || two.CodexHome != "inherit" || two.TurnTimeout != time.Hour ||
		two.State != "/home/u/.local/state/codex-supervisor/second" || two.MaxTurns != 4 ||
		!reflect.DeepEqual(two.ThreadID, map[string]string{"!a": "b:host=c", "plain": "0199-y"}) {
		t.Errorf("second work dir %+v", two)
	}
	team := config.Tier{
		Enabled: true, Read: []string{"/usr/share/doc", "/etc/docs"}, Model: "tiny", TurnTimeout: time.Minute,
		MaxTurns: 2, Rate: config.Rate{Count: 30, Per: time.Hour},
	}
	if !reflect.DeepEqual(c.Tiers["team"], team) || c.Tiers["ambient"].Enabled || !c.Tiers["guest"].Enabled {
		t.Errorf("tiers %+v", c.Tiers)
	}
	if c.Listen != "localhost:80" || c.Socket != "/etc/run/control.sock" || c.DrainTimeout != 90*time.Second || !c.Web.ShowText ||
		c.Log != (config.Log{Level: "debug", Format: "json"}) {
		t.Errorf("service %+v", c)
	}
}

// TestParse_EveryKey keeps the sample above complete: a key that it lacks is a
// key that no test reads.
func TestParse_EveryKey(t *testing.T) {
	for field := range reflect.TypeFor[config.WorkDirKeys]().Fields() {
		if key := field.Tag.Get("toml"); key != "server" && !strings.Contains(full, "\n"+key+" = ") && !strings.Contains(full, "."+key+"]") {
			t.Errorf("the sample does not have %q", key)
		}
	}
}

func TestParse_FlagsWin(t *testing.T) {
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	flags := config.Overlay{
		Listen: ptr("off"), Socket: ptr("/tmp/s"), LogLevel: ptr("warn"), LogFormat: ptr("text"), ShowText: ptr(false),
		DrainTimeout: duration(time.Second),
		WorkDirKeys: config.WorkDirKeys{
			Path: ptr("/work/two"), Tasks: ptr("in"), State: ptr("../st"), Codex: "bin/codex", Model: ptr("flag"),
			TurnTimeout: duration(7 * time.Second), MaxTurns: ptr(1), ThreadID: []string{"c=t"},
			AttachmentRoots: &[]string{"att"},
		},
	}
	c := mustParse(t, full, flags, environ(config.EnvSocket, "/elsewhere"))
	if len(c.WorkDirs) != 1 {
		t.Fatalf("%d work dirs, want the one that --work names", len(c.WorkDirs))
	}
	w := c.WorkDirs[0]
	if w.Name != "second" || w.Tasks != filepath.Join(here, "in") || w.State != filepath.Join(filepath.Dir(here), "st") ||
		!slices.Equal(w.Codex, []string{filepath.Join(here, "bin/codex")}) || w.Model != "flag" || w.TurnTimeout != 7*time.Second ||
		w.MaxTurns != 1 || w.Results != "/work/two/answers" || w.Sandbox != "workspace-write" ||
		!reflect.DeepEqual(w.ThreadID, map[string]string{"c": "t"}) || !slices.Equal(w.AttachmentRoots, []string{filepath.Join(here, "att")}) {
		t.Errorf("work dir %+v", w)
	}
	if c.Listen != "" || c.Socket != "/tmp/s" || c.DrainTimeout != time.Second || c.Web.ShowText ||
		c.Log != (config.Log{Level: "warn", Format: "text"}) {
		t.Errorf("service %+v", c)
	}
}

func TestParse_WhichWorkDir(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		flags config.WorkDirKeys
		want  string
	}{
		"FlagForMany": {full, config.WorkDirKeys{MaxTurns: ptr(2)}, "--max-turns is for a single work dir and /etc/codex-supervisor.toml has 2; say which one with --work DIR"},
		"NotListed":   {full, config.WorkDirKeys{Path: ptr("/work/three")}, "--work: /work/three is none of the work dirs of /etc/codex-supervisor.toml"},
		"BadWord":     {"", config.WorkDirKeys{Path: ptr("/w"), Sandbox: ptr("x")}, `--sandbox: sandbox "x" is unknown; want "read-only", "workspace-write" or "danger-full-access"`},
		"BadThread":   {"", config.WorkDirKeys{Path: ptr("/w"), ThreadID: []string{"x"}}, `--thread-id: thread_id "x" is not CHANNEL=THREAD`},
		"BadTimeout":  {"", config.WorkDirKeys{Path: ptr("/w"), TurnTimeout: duration(0)}, "--turn-timeout: turn_timeout must be longer than nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("/etc/codex-supervisor.toml", []byte(c.text), config.Overlay{WorkDirKeys: c.flags}, environ())
			if err == nil || err.Error() != c.want {
				t.Errorf("error %q\nwant  %q", err, c.want)
			}
		})
	}
	// A flag without --work is for the only one; a file without any takes one.
	one := mustParse(t, "[[workdir]]\npath = \"/srv/a\"\n", config.Overlay{WorkDirKeys: config.WorkDirKeys{Name: ptr("b")}}, environ())
	if one.WorkDirs[0].Name != "b" || one.WorkDirs[0].Path != "/srv/a" {
		t.Errorf("work dir %+v", one.WorkDirs[0])
	}
	none := mustParse(t, "[defaults]\nmodel = \"m\"\n", config.Overlay{WorkDirKeys: config.WorkDirKeys{Path: ptr("/srv/z")}}, environ())
	if none.WorkDirs[0].Name != "z" || none.WorkDirs[0].Model != "m" {
		t.Errorf("work dir %+v", none.WorkDirs[0])
	}
}

func TestSingleWorkDir(t *testing.T) {
	c, err := config.SingleWorkDir(config.Overlay{WorkDirKeys: config.WorkDirKeys{Path: ptr("/srv/My Room!")}}, environ())
	if err != nil {
		t.Fatal(err)
	}
	if w := c.WorkDirs[0]; w.Name != "My-Room-" || w.State != "/home/u/.local/state/codex-supervisor/My-Room-" || c.File != "" {
		t.Errorf("work dir %+v", w)
	}
	if _, err := config.SingleWorkDir(config.Overlay{}, environ()); err == nil ||
		err.Error() != "there is no work dir; give --work DIR, or --config FILE" {
		t.Errorf("error %v", err)
	}
	c, err = config.SingleWorkDir(config.Overlay{WorkDirKeys: config.WorkDirKeys{Path: ptr("/")}}, environ("STATE_DIRECTORY", "/var/lib/x"))
	if err == nil || !strings.Contains(err.Error(), "the state dir /var/lib/x/root of work dir \"root\" would lie in its work dir /") {
		t.Errorf("%+v, error %v", c, err)
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"NotLoopback":  {"listen = \"0.0.0.0:80\"\n[[workdir]]\npath = \"/srv/a\"\n", "listen 0.0.0.0:80 is not loopback"},
		"AllAddresses": {"listen = \":80\"\n[[workdir]]\npath = \"/srv/a\"\n", "listen :80 is not loopback"},
		"StateInside":  {"[[workdir]]\npath = \"/srv/a\"\nstate = \"/srv/a/.state\"\n", "the state dir /srv/a/.state of work dir \"a\" lies in its work dir /srv/a"},
		"StateInCwd":   {"[[workdir]]\npath = \"/srv/a\"\nstate = \"/x/state\"\ncwd = \"/x\"\n", "lies in its cwd /x"},
		"Neighbour":    {"[[workdir]]\npath = \"/srv/a\"\n[[workdir]]\npath = \"/srv/a/b\"\n", "owners of work dir \"a\" may write in /srv/a, which holds the tasks (/srv/a/b/tasks) of work dir \"b\""},
	} {
		t.Run(name, func(t *testing.T) {
			got := mustParse(t, c.text, config.Overlay{}, environ())
			if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], c.want) {
				t.Errorf("warnings %q, want one with %q", got.Warnings, c.want)
			}
		})
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "codex-supervisor.toml")
	if err := os.WriteFile(file, []byte("\xef\xbb\xbf[[workdir]]\r\npath = \"w\"\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file, config.Overlay{}, environ())
	if err != nil {
		t.Fatal(err)
	}
	if c.File != file || c.WorkDirs[0].Path != filepath.Join(dir, "w") || len(c.Warnings) > 0 {
		t.Errorf("%+v", c)
	}
	if err := os.Chmod(file, 0o620); err != nil {
		t.Fatal(err)
	}
	if c, err = config.Load(file, config.Overlay{}, environ()); err != nil || len(c.Warnings) != 1 ||
		!strings.Contains(c.Warnings[0], file+" can be written by others (mode 0620)") {
		t.Errorf("%+v, %v", c, err)
	}
	if err := os.WriteFile(file, []byte("x = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = config.Load(file, config.Overlay{}, environ()); err == nil || !strings.HasPrefix(err.Error(), file+":1:1: unknown key \"x\"\n") {
		t.Errorf("error %v", err)
	}
	if _, err = config.Load(filepath.Join(dir, "none"), config.Overlay{}, environ()); err == nil || !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("error %v", err)
	}
}

func unwrapAll(err error) error {
	for {
		inner, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		if _, last := err.(*os.PathError); last {
			return err
		}
		err = inner.Unwrap()
	}
}

func TestSettings(t *testing.T) {
	c := mustParse(t, full, config.Overlay{LogLevel: ptr("warn")}, environ(config.EnvSocket, "/run/x/e.sock", "XDG_STATE_HOME", "/xdg"))
	got := c.Describe()
	for _, want := range []string{
		"listen = \"localhost:80\"  # file /etc/codex-supervisor.toml:2\n",
		"socket = \"/run/x/e.sock\"  # env $CODEX_SUPERVISOR_SOCKET\n",
		"log.level = \"warn\"  # flag --log-level\n",
		"drain_timeout = \"1m30s\"  # file /etc/codex-supervisor.toml:4\n",
		"workdir.one.turn_timeout = \"1h\"  # file /etc/codex-supervisor.toml:16\n",
		"workdir.one.codex = [\"/etc/codex-wrapper\", \"-v\"]  # file ",
		"workdir.one.max_child_rss = \"2GiB\"  # file ",
		"workdir.one.max_turns = 9  # file ",
		"workdir.one.warm_spare = true  # file ",
		"workdir.one.thread_id = {\"!a=b:host\" = \"0199-x\"}  # file ",
		"workdir.second.name = \"second\"  # file ",
		"workdir.second.state = \"/xdg/codex-supervisor/second\"  # env $XDG_STATE_HOME\n",
		"workdir.second.quiet_after = \"2m\"  # default\n",
		"workdir.second.max_result_bytes = \"48KiB\"  # default\n",
		"workdir.second.env_pass = []  # default\n",
		"tiers.team.rate = \"30/h\"  # file ",
		"tiers.guest.rate = \"\"  # default\n",
		"tiers.ambient.enabled = false  # file ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the listing lacks %q:\n%s", want, got)
		}
	}
	// Every key of every work dir is listed once.
	for _, name := range []string{"one", "second"} {
		for field := range reflect.TypeFor[config.WorkDirKeys]().Fields() {
			key := "workdir." + name + "." + field.Tag.Get("toml") + " = "
			if n := strings.Count("\n"+got, "\n"+key); n != 1 {
				t.Errorf("%q is listed %d times", key, n)
			}
		}
	}
}

func TestWorkDirKeys_Words(t *testing.T) {
	// The defaults are words that the checks accept, and each word is.
	for key, words := range map[string][]string{
		"sandbox":   {config.SandboxReadOnly, config.SandboxWorkspaceWrite, config.SandboxFullAccess},
		"envelope":  {config.EnvelopeAuto, config.EnvelopeAccept, config.EnvelopeLayout, config.EnvelopeStrict},
		"shell_env": {config.ShellEnvCore, config.ShellEnvLogin},
	} {
		for _, word := range words {
			mustParse(t, "[[workdir]]\npath = \"/srv/a\"\n"+key+" = \""+word+"\"\n", config.Overlay{}, environ())
		}
	}
	for _, word := range []string{config.LogDebug, config.LogInfo, config.LogWarn, config.LogError} {
		mustParse(t, "log.level = \""+word+"\"\n[[workdir]]\npath = \"/srv/a\"\n", config.Overlay{}, environ())
	}
}

// TestLoad_Large has many of what a file may have many of, and then too much.
func TestLoad_Large(t *testing.T) {
	var text strings.Builder
	text.WriteString("[[workdir]]\npath = \"/srv/a\"\n[workdir.thread_id]\n")
	for i := range 5_000 {
		fmt.Fprintf(&text, "c%d = \"t%d\"\n", i, i)
	}
	if got := len(mustParse(t, text.String(), config.Overlay{}, environ()).WorkDirs[0].ThreadID); got != 5_000 {
		t.Errorf("%d bindings, want 5000", got)
	}
	text.WriteString(strings.Repeat("#", 1<<20))
	_, err := config.Parse("/etc/c.toml", []byte(text.String()), config.Overlay{}, environ())
	if err == nil || !strings.HasPrefix(err.Error(), "/etc/c.toml: the file has ") {
		t.Errorf("error %v", err)
	}
}
