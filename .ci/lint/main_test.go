package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "example.org/house"

func pkg(name string, imports ...string) listed {
	p := listed{ImportPath: module + "/" + name}
	p.Module.Path = module
	for _, i := range imports {
		if i = strings.TrimSuffix(i, " "); !strings.Contains(strings.SplitN(i, "/", 2)[0], ".") && i != "fmt" {
			i = module + "/" + i
		}
		p.Imports = append(p.Imports, i)
	}
	return p
}

func TestLayers(t *testing.T) {
	test := func(p listed, imports ...string) listed {
		p.XTestImports = imports
		return p
	}
	for name, c := range map[string]struct {
		p    listed
		want string // "" = no complaint
	}{
		"Down":             {pkg("supervisor", "threads", "sandbox", "rpc", "store", "internal/reason", "fmt"), ""},
		"Up":               {pkg("rpc", "supervisor"), "rpc imports supervisor: imports run one way"},
		"UpToCommand":      {pkg("supervisor", "cmd/codex-supervisor"), "nothing imports a command"},
		"Sideways":         {pkg("sandbox", "threads"), "sandbox imports threads: packages of one floor"},
		"SidewaysBack":     {pkg("threads", "sandbox"), "threads imports sandbox: packages of one floor"},
		"KeptApart":        {pkg("sandbox", "store"), "sandbox imports store: these two are kept apart"},
		"ReasonIsALeaf":    {pkg("internal/reason", "internal/task"), "internal/reason imports internal/task: imports run"},
		"Unknown":          {pkg("internal/misplaced"), "internal/misplaced is no package of the house"},
		"Bolt":             {pkg("threads", "go.etcd.io/bbolt/errors"), "threads imports go.etcd.io/bbolt/errors: only store may"},
		"BoltInStore":      {pkg("store", "go.etcd.io/bbolt"), ""},
		"BoltInTest":       {test(pkg("supervisor"), "go.etcd.io/bbolt"), "supervisor imports go.etcd.io/bbolt: only store may"},
		"RPC":              {pkg("stubserver", "github.com/sourcegraph/jsonrpc2"), "only rpc may"},
		"Service":          {pkg("supervisor", "github.com/kardianos/service"), "only cmd/codex-supervisor and deploy may"},
		"SchemaInTest":     {test(pkg("rpc"), "github.com/santhosh-tekuri/jsonschema/v6"), ""},
		"SchemaInDaemon":   {pkg("rpc", "github.com/santhosh-tekuri/jsonschema/v6"), "it is for tests only"},
		"StubInDaemon":     {pkg("supervisor", "stubserver"), "supervisor imports stubserver: outside tests only cmd/codex-supervisor may"},
		"TestingInDaemon":  {pkg("rpc", "rpc/schematest"), "rpc imports rpc/schematest: it is for tests only"},
		"StubInTest":       {test(pkg("supervisor"), module+"/stubserver"), ""},
		"StubInCommand":    {pkg("cmd/codex-supervisor", "stubserver", "stubserver/model", "deploy"), ""},
		"StubImports":      {pkg("stubserver", "store"), "stubserver imports store: it may only import rpc"},
		"DeployHasNoLogic": {pkg("deploy", "internal/reason"), "deploy imports internal/reason: it imports nothing of the house"},
	} {
		t.Run(name, func(t *testing.T) {
			got := layers([]listed{c.p, c.p})
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("complaints %q, want none", got)
				}
				return
			}
			if len(got) != 1 && name != "UpToCommand" || !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, c.want) }) {
				t.Errorf("complaints %q, want one with %q", got, c.want)
			}
		})
	}
}

func TestFile(t *testing.T) {
	const sleepy = "package a_test\n\nimport (\n\t\"time\"\n%s)\n\nfunc f() { time.Sleep(1) %s}\n"
	fill := func(a, b string) string {
		return strings.Replace(strings.Replace(sleepy, "%s", a, 1), "%s", b, 1)
	}
	for name, c := range map[string]struct{ file, text, want string }{
		"Fine":          {"a/a.go", "package a\n", ""},
		"Sleep":         {"a/a_test.go", fill("", ""), "a/a_test.go:7: a test sleeps on time"},
		"SleepInCode":   {"a/a.go", strings.Replace(fill("", ""), "a_test", "a", 1), ""},
		"FakeClock":     {"a/a_test.go", fill("\t\"testing/synctest\"\n", ""), ""},
		"SleepAllowed":  {"a/a_test.go", fill("", "/* x */ }\n\nfunc g() { time.Sleep(2) //lint:allow sleep the kernel gives no event\n"), "a/a_test.go:7: a test sleeps"},
		"NoReason":      {"a/a_test.go", "package a //lint:allow sleep\n", "gives no reason"},
		"Unfinished":    {"a/a.go", "package a\n\n// One.\n// TODO: two.\n", "a/a.go:4: TODO"},
		"WordInAString": {"a/a.go", "package a\n\nconst s = \"TODO\"\n", ""},
		"Vague":         {"a/a.go", "package util\n", "package util says nothing"},
		"Long":          {"a/a.go", "package a\n" + strings.Repeat("\n", 450), "451 lines"},
		"NotSoLong":     {"a/a.go", "package a\n" + strings.Repeat("\n", 449), ""},
		"Broken":        {"a/a.go", "pakage a\n", "expected 'package'"},
	} {
		t.Run(name, func(t *testing.T) {
			got := file(c.file, []byte(c.text))
			switch {
			case c.want == "" && len(got) > 0:
				t.Errorf("complaints %q, want none", got)
			case c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)):
				t.Errorf("complaints %q, want one with %q", got, c.want)
			}
		})
	}
}

// TestRun judges a whole module on disk, once clean and once with a fault of
// each kind.
func TestRun(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module "+module+"\n\ngo 1.26\n")
	write("rpc/rpc.go", "package rpc\n")
	write("threads/threads.go", "package threads\n\nimport _ \""+module+"/rpc\"\n")
	write("threads/testdata/broken.go", "no Go at all, TODO\n")
	var out, errs strings.Builder
	if status := run(root, &out, &errs); status != 0 || out.String() != "2 packages keep to their floors\n" {
		t.Fatalf("exit %d, %q, %q", status, &out, &errs)
	}
	write("rpc/rpc_darwin.go", "package rpc\n\nimport _ \""+module+"/threads\"\n\n// FIXME\n")
	if status := run(root, &out, &errs); status != 1 {
		t.Errorf("exit %d, want 1", status)
	}
	for _, want := range []string{"rpc imports threads: imports run one way", "rpc/rpc_darwin.go:5: FIXME", "2 complaint(s)"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &errs)
		}
	}
}
