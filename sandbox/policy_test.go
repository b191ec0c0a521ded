package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"pgregory.net/rapid"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func options(tb testing.TB) (sandbox.Options, string) {
	tb.Helper()
	dir := tb.TempDir()
	for _, d := range []string{"/work/tasks", "/work/results", "/state/codex-home", "/run", "/free"} {
		mustMkdir(tb, dir+d)
	}
	mustWrite(tb, dir+"/bin/codex", "x")
	return sandbox.Options{
		Work: dir + "/work", State: dir + "/state", CodexHome: dir + "/state/codex-home",
		CodexBinary: dir + "/bin/codex", UID: 1000,
	}, dir
}

func mustNew(tb testing.TB, o sandbox.Options) *sandbox.Policy {
	tb.Helper()
	p, err := sandbox.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestNew_Options(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sandbox.Options)
		option string
	}{
		"mode":            {func(o *sandbox.Options) { o.Mode = "yolo" }, "sandbox"},
		"shell env":       {func(o *sandbox.Options) { o.ShellEnv = "all" }, "shell_env"},
		"no work":         {func(o *sandbox.Options) { o.Work = "" }, "path"},
		"relative state":  {func(o *sandbox.Options) { o.State = "state" }, "state"},
		"no home":         {func(o *sandbox.Options) { o.CodexHome = "" }, "codex_home"},
		"no codex":        {func(o *sandbox.Options) { o.CodexBinary = "" }, "codex"},
		"glob in results": {func(o *sandbox.Options) { o.Results = "/a/b[1]" }, "results"},
		"glob in deny":    {func(o *sandbox.Options) { o.Deny = []string{"/etc/*.toml"} }, "config file"},
		"not UTF-8":       {func(o *sandbox.Options) { o.Tasks = "/a/\xff" }, "tasks"},
		"control":         {func(o *sandbox.Options) { o.Cwd = "/a/\n" }, "cwd"},
	} {
		o, _ := options(t)
		tc.change(&o)
		_, err := sandbox.New(o)
		var bad *sandbox.OptionError
		if !errors.As(err, &bad) || bad.Option != tc.option || !strings.Contains(err.Error(), tc.option) {
			t.Errorf("%s: %v, want an error of %s", name, err, tc.option)
		}
	}
}

func TestNew_ReadPaths(t *testing.T) {
	o, dir := options(t)
	mustSymlink(t, dir+"/state", dir+"/alias")
	mustSymlink(t, dir+"/free", dir+"/freelink")
	mustWrite(t, dir+"/free/key", "k")
	if _, err := sandbox.New(sandbox.Options{Work: o.Work, State: o.State, CodexHome: o.CodexHome, CodexBinary: o.CodexBinary, Deny: []string{""}}); err != nil {
		t.Errorf("a key that is not set: %v", err)
	}
	o.Private = []string{dir + "/run", dir + "/not-there-yet/run"}
	o.Deny = []string{dir + "/free/key", dir + "/etc/ours.toml"}
	for name, tc := range map[string]struct{ path, want string }{
		"missing":          {dir + "/none", "does not exist"},
		"relative":         {"free", "not an absolute path"},
		"glob":             {dir + "/fr*", "pattern"},
		"work":             {dir + "/work", "contains the work dir"},
		"in work":          {dir + "/work/tasks", "lies in the work dir"},
		"around":           {dir, "contains the work dir"},
		"root":             {"/", "contains the work dir"},
		"state by a link":  {dir + "/alias", "contains the state dir"},
		"home":             {dir + "/alias/codex-home", "lies in the state dir"},
		"socket dir":       {dir + "/run", "contains the private dir"},
		"the secret":       {dir + "/free/key", "contains the secret file"},
		"dots into state":  {dir + "/free/../state", "contains the state dir"},
		"file as a parent": {dir + "/free/key/x", "not a directory"},
	} {
		o.Read = map[task.Tier][]string{task.Team: {tc.path}}
		_, err := sandbox.New(o)
		var bad *sandbox.ReadPathError
		if !errors.As(err, &bad) || bad.Tier != task.Team || bad.Path != tc.path || !strings.Contains(bad.Why, tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	for tier, want := range map[task.Tier]string{task.Owner: "not read-confined", "vip": "no such tier"} {
		o.Read = map[task.Tier][]string{tier: {dir + "/free"}}
		if _, err := sandbox.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", tier, err)
		}
	}
	o.Read = map[task.Tier][]string{task.Guest: {dir + "/freelink/", dir + "/free"}}
	args := arguments(t, mustNew(t, o).NewChild())
	profile := args.guest(t, 2)
	for _, path := range []string{dir + "/free", dir + "/freelink"} {
		if profile.Filesystem[path] != "read" {
			t.Errorf("%s: %v", path, profile.Filesystem[path])
		}
	}
	if profile.Filesystem[dir+"/free/key"] != "deny" || profile.Filesystem[dir+"/etc/ours.toml"] != "deny" {
		t.Errorf("secrets: %v", profile.Filesystem)
	}
}

// parsedArgs is the command line as codex reads it.
type parsedArgs struct {
	Default string `toml:"default_permissions"`
	Unload  int    `toml:"thread_unload_delay_secs"`
	Shell   struct {
		Inherit string
	} `toml:"shell_environment_policy"`
	Permissions map[string]parsedProfile
}

type parsedProfile struct {
	Extends    string
	Filesystem map[string]any
	Network    map[string]any
}

func arguments(tb testing.TB, c *sandbox.Child) parsedArgs {
	tb.Helper()
	args := c.Args()
	var text strings.Builder
	for i := 0; i < len(args); i += 2 {
		if args[i] != "-c" {
			tb.Fatalf("argument %d is %q", i, args[i])
		}
		text.WriteString(args[i+1] + "\n")
	}
	var parsed parsedArgs
	if err := toml.Unmarshal([]byte(text.String()), &parsed); err != nil {
		tb.Fatalf("%v in:\n%s", err, text.String())
	}
	return parsed
}

// guest returns the profile of the guest tiers with so many `read` paths or more.
func (a parsedArgs) guest(tb testing.TB, reads int) parsedProfile {
	tb.Helper()
	for id, p := range a.Permissions {
		n := 0
		for key, v := range p.Filesystem {
			if v == "read" && strings.HasPrefix(key, "/") {
				n++
			}
		}
		if strings.HasPrefix(id, "guest_") && n >= reads {
			return p
		}
	}
	tb.Fatalf("no guest profile with %d read paths: %v", reads, a.Permissions)
	return parsedProfile{}
}

func TestChild_Args(t *testing.T) {
	for mode, extends := range map[sandbox.Mode]string{"": ":read-only", sandbox.ReadOnly: ":read-only", sandbox.WorkspaceWrite: ":workspace"} {
		o, dir := options(t)
		o.Mode = mode
		got := arguments(t, mustNew(t, o).NewChild())
		if got.Default != ":read-only" || got.Unload < 1 || got.Unload > 5 || got.Shell.Inherit != "core" {
			t.Errorf("%s: %+v", mode, got)
		}
		if len(got.Permissions) != 2 {
			t.Fatalf("%s: %d profiles", mode, len(got.Permissions))
		}
		for id, p := range got.Permissions {
			if strings.HasPrefix(id, "owner_") {
				if p.Extends != extends {
					t.Errorf("%s: owners extend %q", mode, p.Extends)
				}
				for _, path := range []string{"/work/tasks", "/work/results", "/state", "/state/codex-home"} {
					if p.Filesystem[dir+path] != "read" {
						t.Errorf("%s: %s is %v for owners", mode, path, p.Filesystem[dir+path])
					}
				}
				continue
			}
			if p.Extends != "" || p.Network["enabled"] != false {
				t.Errorf("guests: %+v", p)
			}
			roots, _ := p.Filesystem[":workspace_roots"].(map[string]any)
			if len(p.Filesystem) != 3 || p.Filesystem[":minimal"] != "read" || p.Filesystem[dir+"/bin/codex"] != "read" || len(roots) != 1 || roots["."] != "read" {
				t.Errorf("guests read %v", p.Filesystem)
			}
		}
	}
	o, _ := options(t)
	o.Mode = sandbox.FullAccess
	for id := range arguments(t, mustNew(t, o).NewChild()).Permissions {
		if !strings.HasPrefix(id, "guest_") {
			t.Errorf("full access has a profile %s, which codex refuses", id)
		}
	}
}

func TestChild_IDsAreRandomAndOnePerReadSet(t *testing.T) {
	o, dir := options(t)
	o.Read = map[task.Tier][]string{task.Team: {dir + "/free"}}
	p := mustNew(t, o)
	a, b := p.NewChild(), p.NewChild()
	ids := func(c *sandbox.Child) map[task.Tier]string {
		out := map[task.Tier]string{}
		for _, tier := range append(task.AllTiers(), "unknown") {
			out[tier] = c.GuestStart(tier, "/r", nil).Config["default_permissions"].(string)
		}
		return out
	}
	one, two := ids(a), ids(b)
	if one[task.Guest] == two[task.Guest] || one[task.Team] == two[task.Team] || a.OwnerStart().Config["default_permissions"] == b.OwnerStart().Config["default_permissions"] {
		t.Error("ids repeat from child to child")
	}
	if one[task.Team] == one[task.Guest] || one[task.Ambient] != one[task.Guest] {
		t.Errorf("ids %v", one)
	}
	// Whoever is no known non-owner gets the guest's profile, an owner who is
	// asked for by mistake included.
	if one["unknown"] != one[task.Guest] || one[task.Owner] != one[task.Guest] {
		t.Errorf("ids %v", one)
	}
	if len(one[task.Guest]) < len("guest_")+32 {
		t.Errorf("id %q can be guessed", one[task.Guest])
	}
	if slices.Equal(a.Environ(), b.Environ()) {
		t.Error("the environment's canary repeats")
	}
}

func TestChild_ArgsQuoteAnyPath(t *testing.T) {
	o, dir := options(t)
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[^\x00-\x1f\x7f*?\[\]/]{1,20}`).Draw(t, "name")
		if name == "." || name == ".." {
			t.Skip()
		}
		path := dir + "/deny/" + name
		o.Deny = []string{path}
		p, err := sandbox.New(o)
		if err != nil {
			t.Fatal(err)
		}
		if got := arguments(tbOf(t), p.NewChild()).guest(tbOf(t), 1).Filesystem[path]; got != "deny" {
			t.Fatalf("%q is %v", path, got)
		}
	})
}

// tbOf lends a rapid.T to helpers for testing.TB; they use no more than this.
func tbOf(t *rapid.T) testing.TB { return rapidTB{T: t} }

type rapidTB struct {
	testing.TB
	T *rapid.T
}

func (r rapidTB) Helper()                      {}
func (r rapidTB) Fatalf(f string, args ...any) { r.T.Fatalf(f, args...) }
func (r rapidTB) Fatal(args ...any)            { r.T.Fatal(args...) }

func TestChild_Refusal(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sandbox.Options)
		want   reason.Reason
	}{
		"unproven":         {func(*sandbox.Options) {}, reason.GuestsUnconfined},
		"root":             {func(o *sandbox.Options) { o.UID = 0 }, reason.GuestsAsRoot},
		"root, allowed":    {func(o *sandbox.Options) { o.UID, o.UnsafeRootGuests = 0, true }, reason.GuestsUnconfined},
		"the stub":         {func(o *sandbox.Options) { o.StubChild = true }, ""},
		"the stub as root": {func(o *sandbox.Options) { o.UID, o.StubChild = 0, true }, ""},
	} {
		o, _ := options(t)
		tc.change(&o)
		if got := mustNew(t, o).NewChild().Refusal(); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestPolicy_Notes(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*sandbox.Options)
		want   []string
	}{
		"plain":      {func(*sandbox.Options) {}, nil},
		"full":       {func(o *sandbox.Options) { o.Mode = sandbox.FullAccess }, []string{"nothing here is a boundary"}},
		"root":       {func(o *sandbox.Options) { o.UID = 0 }, []string{"only owner tasks run"}},
		"unsafe":     {func(o *sandbox.Options) { o.UID, o.UnsafeRootGuests = 0, true }, []string{"kernel settings"}},
		"root stub":  {func(o *sandbox.Options) { o.UID, o.StubChild = 0, true }, nil},
		"everything": {func(o *sandbox.Options) { o.UID, o.Mode = 0, sandbox.FullAccess }, []string{"nothing here", "only owner"}},
	} {
		o, _ := options(t)
		tc.change(&o)
		notes := mustNew(t, o).Notes()
		if len(notes) != len(tc.want) {
			t.Errorf("%s: %q", name, notes)
			continue
		}
		for i, want := range tc.want {
			if !strings.Contains(notes[i], want) {
				t.Errorf("%s: %q", name, notes[i])
			}
		}
	}
}

func TestEnvironment(t *testing.T) {
	base := []string{
		"PATH=/bin", "HOME=/h", "OPENAI_API_KEY=sk", "SERVICE_SECRET=x", "LC_ALL=C", "CODEX_HOME=/wrong", "https_proxy=http://p",
		"MINE=1", "MINE=2", "SSH_AUTH_SOCK=/s", "broken", "=odd", "XDG_RUNTIME_DIR=/run/user/1", "LD_PRELOAD=/evil.so", "RUST_LOG=trace",
	}
	got := sandbox.Environment(base, []string{"MINE", "CODEX_HOME", "ABSENT"}, "/state/home")
	want := []string{"PATH=/bin", "HOME=/h", "LC_ALL=C", "https_proxy=http://p", "MINE=2", "CODEX_HOME=/state/home"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if os.Getuid() == 0 {
		t.Error("the suite runs as root")
	}
}

func glob(tb testing.TB, pattern string) []string {
	tb.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil {
		tb.Fatal(err)
	}
	return found
}
