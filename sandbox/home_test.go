package sandbox_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func mustPrepare(tb testing.TB, o sandbox.HomeOptions) sandbox.Home {
	tb.Helper()
	home, err := sandbox.PrepareHome(o)
	if err != nil {
		tb.Fatal(err)
	}
	return home
}

func target(tb testing.TB, path string) string {
	tb.Helper()
	to, err := os.Readlink(path)
	if err != nil {
		tb.Fatal(err)
	}
	return to
}

func TestPrepareHome_Private(t *testing.T) {
	dir := t.TempDir()
	user, state := dir+"/user", dir+"/state"
	mustWrite(t, user+"/config.toml", "model = \"a\"\ndeveloper_instructions = \"be kind\"\n")
	mustWrite(t, user+"/AGENTS.md", "\nsay please\n")
	mustWrite(t, user+"/skills/s/SKILL.md", "s")
	mustWrite(t, user+"/hooks.json", "{}")
	// Left by an older version or by hand.
	mustWrite(t, state+"/codex-home/AGENTS.md", "old")
	mustWrite(t, state+"/codex-home/AGENTS.override.md", "old")
	mustWrite(t, state+"/codex-home/skills/.system/x", "codex's own")
	if err := os.Chmod(state+"/codex-home", 0o755); err != nil {
		t.Fatal(err)
	}
	home := mustPrepare(t, sandbox.HomeOptions{From: user, State: state})
	if home.Dir != state+"/codex-home" || home.From != user || !home.Private || home.Auth != user+"/auth.json" {
		t.Errorf("%+v", home)
	}
	if home.AgentsMD != "say please" || home.Instructions != "be kind\n\nsay please" {
		t.Errorf("instructions %q, %q", home.AgentsMD, home.Instructions)
	}
	if mode(t, home.Dir) != 0o700 || mode(t, home.Dir+"/config.toml") != 0o600 {
		t.Error("the home can be read by others")
	}
	for _, name := range []string{"AGENTS.md", "AGENTS.override.md", "hooks.json", "rules", "plugins"} {
		if exists(home.Dir + "/" + name) {
			t.Errorf("%s is in the private home", name)
		}
	}
	// The login need not exist yet: the first one lands in the user's home.
	for _, name := range []string{"auth.json", ".credentials.json", "skills"} {
		if got := target(t, home.Dir+"/"+name); got != user+"/"+name {
			t.Errorf("%s leads to %s", name, got)
		}
	}
	mustWrite(t, home.Dir+"/auth.json", "login")
	if read(t, user+"/auth.json") != "login" {
		t.Error("a login does not reach the user's home")
	}

	// What codex writes into the copy stays out of the user's file, and the
	// next start takes the user's again.
	mustWrite(t, home.Dir+"/config.toml", "[projects.\"/w\"]\ntrust_level = \"trusted\"\n")
	if strings.Contains(read(t, user+"/config.toml"), "trusted") {
		t.Error("the user's configuration was written")
	}
	mustWrite(t, user+"/config.toml", "model = \"b\"\n")
	mustWrite(t, user+"/AGENTS.override.md", "say thanks")
	if err := os.RemoveAll(user + "/skills"); err != nil {
		t.Fatal(err)
	}
	mustMkdir(t, user+"/rules")
	home = mustPrepare(t, sandbox.HomeOptions{Mode: sandbox.HomePrivate, From: user, State: state})
	if got := read(t, home.Dir+"/config.toml"); got != "model = \"b\"\n" || home.Instructions != "say thanks" {
		t.Errorf("second start: %q, %q", got, home.Instructions)
	}
	if exists(home.Dir+"/skills") || target(t, home.Dir+"/rules") != user+"/rules" {
		t.Error("links do not follow what the user has")
	}

	// Another user's home: links are moved, and no configuration means none.
	other := dir + "/other"
	mustMkdir(t, other)
	home = mustPrepare(t, sandbox.HomeOptions{From: other, State: state})
	if target(t, home.Dir+"/auth.json") != other+"/auth.json" || exists(home.Dir+"/config.toml") || exists(home.Dir+"/rules") || home.Instructions != "" {
		t.Errorf("third start: %+v", home)
	}
	left, err := filepath.Glob(home.Dir + "/.new-*")
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %q %v", left, err)
	}
}

func TestPrepareHome_LinksWhatTheConfigurationNames(t *testing.T) {
	dir := t.TempDir()
	user := dir + "/user"
	mustWrite(t, user+"/config.toml", `model_instructions_file = "sub/inst.md"
other = ["AGENTS.md", "sessions/x.jsonl", "../outside", "`+user+`/sub/inst.md", "no-such-file", "sub", "state.sqlite", "mine"]
[agents.a]
config_file = "./agents/a.toml"
`)
	for _, name := range []string{"sub/inst.md", "agents/a.toml", "AGENTS.md", "sessions/x.jsonl", "state.sqlite", "mine"} {
		mustWrite(t, user+"/"+name, "user's")
	}
	mustWrite(t, dir+"/outside", "x")
	mustWrite(t, dir+"/state/codex-home/mine", "codex's")
	var home sandbox.Home
	for range 2 { // a second start finds the links of the first
		home = mustPrepare(t, sandbox.HomeOptions{From: user, State: dir + "/state"})
	}
	for _, name := range []string{"sub/inst.md", "agents/a.toml"} {
		if got := target(t, home.Dir+"/"+name); got != user+"/"+name {
			t.Errorf("%s leads to %s", name, got)
		}
	}
	for _, name := range []string{"AGENTS.md", "sessions", "state.sqlite", "no-such-file"} {
		if exists(home.Dir + "/" + name) {
			t.Errorf("%s is in the private home", name)
		}
	}
	if exists(dir+"/state/outside") || read(t, home.Dir+"/mine") != "codex's" {
		t.Error("a file elsewhere was touched")
	}
}

func TestPrepareHome_KeepsWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/user/auth.json", "user's")
	mustWrite(t, dir+"/user/skills/a", "user's")
	mustWrite(t, dir+"/state/codex-home/auth.json", "made here")
	mustWrite(t, dir+"/state/codex-home/skills/mine/SKILL.md", "made here")
	home := mustPrepare(t, sandbox.HomeOptions{From: dir + "/user", State: dir + "/state"})
	if read(t, home.Dir+"/auth.json") != "made here" || read(t, home.Dir+"/skills/mine/SKILL.md") != "made here" {
		t.Error("files of the private home are gone")
	}
}

func TestPrepareHome_OtherModes(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/user/AGENTS.md", "read by codex itself")
	home := mustPrepare(t, sandbox.HomeOptions{Mode: sandbox.HomeInherit, From: dir + "/user", State: dir + "/state"})
	if home.Dir != dir+"/user" || home.Private || home.Instructions != "" || home.Auth != dir+"/user/auth.json" {
		t.Errorf("inherit: %+v", home)
	}
	home = mustPrepare(t, sandbox.HomeOptions{Mode: dir + "/own/", From: dir + "/user", State: dir + "/state"})
	if home.Dir != dir+"/own" || home.From != dir+"/user" || mode(t, home.Dir) != 0o700 || home.Auth != dir+"/own/auth.json" {
		t.Errorf("path: %+v", home)
	}
	var bad *sandbox.OptionError
	if _, err := sandbox.PrepareHome(sandbox.HomeOptions{Mode: "shared", From: dir}); !errors.As(err, &bad) || bad.Option != "codex_home" {
		t.Errorf("unknown mode: %v", err)
	}
	if _, err := sandbox.PrepareHome(sandbox.HomeOptions{From: dir + "/state/codex-home", State: dir + "/state"}); !errors.As(err, &bad) || bad.Option != "codex_home_from" {
		t.Errorf("itself: %v", err)
	}
	t.Setenv("CODEX_HOME", dir+"/from-env")
	if home = mustPrepare(t, sandbox.HomeOptions{Mode: sandbox.HomeInherit}); home.Dir != dir+"/from-env" {
		t.Errorf("environment: %+v", home)
	}
	t.Setenv("CODEX_HOME", "")
	t.Setenv("HOME", dir+"/h")
	if home = mustPrepare(t, sandbox.HomeOptions{Mode: sandbox.HomeInherit}); home.Dir != dir+"/h/.codex" {
		t.Errorf("default: %+v", home)
	}
}

func TestPrepareHome_Errors(t *testing.T) {
	dir := t.TempDir()
	mustWrite(t, dir+"/state", "a file")
	mustMkdir(t, dir+"/user")
	if _, err := sandbox.PrepareHome(sandbox.HomeOptions{From: dir + "/user", State: dir + "/state"}); err == nil || !strings.Contains(err.Error(), "prepare private CODEX_HOME") {
		t.Errorf("state is a file: %v", err)
	}
	mustMkdir(t, dir+"/user/config.toml")
	if _, err := sandbox.PrepareHome(sandbox.HomeOptions{From: dir + "/user", State: dir + "/s2"}); err == nil {
		t.Error("a config.toml that cannot be read is taken for none")
	}
	mustWrite(t, dir+"/u3/config.toml", "not = [toml")
	mustWrite(t, dir+"/u3/AGENTS.md", "words")
	home := mustPrepare(t, sandbox.HomeOptions{From: dir + "/u3", State: dir + "/s3"})
	if home.Instructions != "words" || read(t, home.Dir+"/config.toml") != "not = [toml" {
		t.Errorf("a broken configuration is codex's to complain about: %+v", home)
	}
	mustMkdir(t, dir+"/u4/AGENTS.md")
	if _, err := sandbox.PrepareHome(sandbox.HomeOptions{From: dir + "/u4", State: dir + "/s4"}); err == nil {
		t.Error("an AGENTS.md that cannot be read is taken for none")
	}
}

func TestImportRollout(t *testing.T) {
	dir := t.TempDir()
	const id = "01a22f40-d4b2-7923-b156-473c832299fd"
	rel := "/sessions/2026/01/02/rollout-2026-01-02T03-04-05-" + id + ".jsonl"
	mustWrite(t, dir+"/user"+rel, "history")
	mustWrite(t, dir+"/user/sessions/2026/01/02/rollout-2026-01-02T03-04-05-other.jsonl", "other")
	home := sandbox.Home{Dir: dir + "/home"}
	if err := sandbox.ImportRollout(home, dir+"/user", id); err != nil {
		t.Fatal(err)
	}
	if read(t, dir+"/home"+rel) != "history" || mode(t, dir+"/home"+rel) != 0o600 {
		t.Error("the copy differs")
	}
	if list, _ := filepath.Glob(dir + "/home/sessions/2026/01/02/*"); len(list) != 1 {
		t.Errorf("copied %q", list)
	}
	mustWrite(t, dir+"/home"+rel, "history, gone on")
	if err := sandbox.ImportRollout(home, dir+"/user", id); err != nil || read(t, dir+"/home"+rel) != "history, gone on" {
		t.Errorf("a thread that is here already was overwritten: %v", err)
	}
	const unknown = "01a22f40-0000-0000-0000-000000000000"
	for _, from := range []string{dir + "/user", dir + "/nobody"} {
		if err := sandbox.ImportRollout(home, from, unknown); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("unknown thread: %v", err)
		}
	}
	for _, bad := range []string{"", "*", "../x", "a/b", id + "0", "473c832299fd"} {
		if err := sandbox.ImportRollout(home, dir+"/user", bad); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := os.Chmod(dir+"/user"+rel, 0); err != nil {
		t.Fatal(err)
	}
	if err := sandbox.ImportRollout(sandbox.Home{Dir: dir + "/third"}, dir+"/user", id); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("unreadable: %v", err)
	}
}
