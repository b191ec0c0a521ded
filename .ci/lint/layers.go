package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// floors are the layers of the house, lowest first: a package imports only from
// floors below its own, so packages of one floor do not know each other.
var floors = [][]string{
	{"internal/reason", "internal/durable"},
	{"internal/task", "internal/proc"},
	{"rpc", "store"},
	{"threads", "sandbox", "internal/inbox", "internal/outbox"},
	{"supervisor"},
	{"internal/control", "internal/config"},
	{"internal/doctor"},
	{"cmd/codex-supervisor"},
}

// apart are packages outside the floors: what they may import, and who may
// import them. Tests may import them from anywhere.
var apart = map[string]struct{ imports, importers []string }{
	"stubserver": {
		imports:   []string{"rpc", "internal/reason", "internal/task", "stubserver/model"},
		importers: []string{"cmd/codex-supervisor"},
	},
	"stubserver/model": {importers: []string{"stubserver", "cmd/codex-supervisor"}},
	"deploy":           {importers: []string{"cmd/codex-supervisor"}},
	"rpc/schematest":   {}, // for tests only
	"internal/nobody":  {}, // for tests only
}

// never are imports that the floors would allow.
var never = map[string][]string{
	"sandbox":          {"store"}, // policy has no memory
	"rpc":              {"internal/task", "internal/proc"},
	"internal/proc":    {"internal/durable"},
	"internal/control": {"rpc", "threads", "sandbox", "internal/inbox", "internal/outbox", "internal/proc"}, // all state changes through supervisor
	"internal/reason":  {"internal/durable"},
	"internal/outbox":  {"rpc", "store"},
	"internal/inbox":   {"rpc", "store"},
	"internal/config":  {"rpc", "store", "threads", "internal/inbox", "internal/outbox", "internal/proc"},
}

// owners are outside modules that belong to few packages, so that their sharp
// edges are handled in one place. Tests are held to it too.
var owners = map[string][]string{
	"go.etcd.io/bbolt":                      {"store"},
	"github.com/sourcegraph/jsonrpc2":       {"rpc"},
	"github.com/kardianos/service":          {"cmd/codex-supervisor", "deploy"},
	"github.com/spf13/cobra":                {"cmd/codex-supervisor"},
	"github.com/santhosh-tekuri/jsonschema": {"rpc/schematest"}, // and tests
}

// testOnly modules of owners may be imported by any test and by nothing else.
var testOnly = []string{"github.com/santhosh-tekuri/jsonschema"}

// listed is what `go list -json` says of a package.
type listed struct {
	ImportPath                         string
	Module                             struct{ Path string }
	Imports, TestImports, XTestImports []string
}

// list asks the go command about every package, on both systems we build for:
// files for the other one count too.
func list(dir string) ([]listed, error) {
	var all []listed
	for _, goos := range []string{"linux", "darwin"} {
		cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Module,Imports,TestImports,XTestImports", "./...")
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", goos, err)
		}
		decoder := json.NewDecoder(bytes.NewReader(out))
		for {
			var p listed
			if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read go list: %w", err)
			}
			all = append(all, p)
		}
	}
	return all, nil
}

// layers judges the imports; each complaint is one sentence.
func layers(packages []listed) []string {
	var found []string
	say := func(format string, args ...any) {
		if s := fmt.Sprintf(format, args...); !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	for _, p := range packages {
		name := p.short(p.ImportPath)
		if !known(name) {
			say("%s is no package of the house: give it a floor in .ci/lint/layers.go", name)
			continue
		}
		for _, path := range p.Imports {
			if other, ours := p.own(path); ours {
				if why := mayNot(name, other); why != "" {
					say("%s imports %s: %s", name, other, why)
				}
			}
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if other, ours := p.own(path); ours {
				if strings.HasPrefix(other, "cmd/") && other != name {
					say("%s imports %s: nothing imports a command", name, other)
				}
				continue
			}
			for module, by := range owners {
				if path != module && !strings.HasPrefix(path, module+"/") || slices.Contains(by, name) {
					continue
				}
				switch {
				case slices.Contains(testOnly, module):
					if slices.Contains(p.Imports, path) {
						say("%s imports %s outside its tests: it is for tests only", name, path)
					}
				default:
					say("%s imports %s: only %s may", name, path, strings.Join(by, " and "))
				}
			}
		}
	}
	slices.Sort(found)
	return found
}

func (p listed) short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, p.Module.Path), "/")
}

func (p listed) own(path string) (string, bool) {
	if !strings.HasPrefix(path, p.Module.Path+"/") {
		return "", false
	}
	return p.short(path), true
}

func floor(name string) int {
	return slices.IndexFunc(floors, func(f []string) bool { return slices.Contains(f, name) })
}

func known(name string) bool {
	_, isApart := apart[name]
	return isApart || floor(name) >= 0
}

// mayNot says why name must not import other, or "".
func mayNot(name, other string) string {
	if to, ok := apart[other]; ok {
		if slices.Contains(to.importers, name) {
			return ""
		}
		if len(to.importers) == 0 {
			return "it is for tests only"
		}
		return "outside tests only " + strings.Join(to.importers, " and ") + " may"
	}
	if from, ok := apart[name]; ok {
		switch {
		case slices.Contains(from.imports, other):
			return ""
		case len(from.imports) == 0:
			return "it imports nothing of the house"
		}
		return "it may only import " + strings.Join(from.imports, ", ")
	}
	switch {
	case slices.Contains(never[name], other):
		return "these two are kept apart"
	case floor(other) < floor(name):
		return ""
	case floor(other) == floor(name):
		return "packages of one floor do not import each other"
	}
	return "imports run one way, cmd → control, config → supervisor → threads, sandbox, inbox, outbox → rpc, store → task, proc → reason"
}
