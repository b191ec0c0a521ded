package doctor_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// house is what a doctor is asked about: a work dir whose codex is the stub.
type house struct {
	t   *testing.T
	dir string
	opt doctor.Options
	// wrap plays a sandbox for the stub, which has none.
	wrap     func([]string, sandbox.ExecFunc) sandbox.ExecFunc
	patience time.Duration // of the doctor with a child
}

func newHouse(t *testing.T) *house {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	w := supervisor.WorkDirOptions{
		Name: "house", Path: filepath.Join(dir, "work"),
		Tasks: filepath.Join(dir, "work", "tasks"), Results: filepath.Join(dir, "work", "results"), State: filepath.Join(dir, "state"),
		KeyFile: filepath.Join(dir, "work", "key"), Codex: []string{exe}, CodexHomeFrom: filepath.Join(dir, "user"),
		// A program under the race detector sleeps for a second when it ends, and
		// these tests start hundreds: guards, and codex itself.
		Env: []string{playCodex + "=1", "GORACE=atexit_sleep_ms=0"}, Sandbox: sandbox.ReadOnly,
	}
	for _, d := range []string{w.Tasks, w.Results, w.State, w.CodexHomeFrom} {
		mkdir(t, d)
	}
	return &house{
		t: t, dir: dir, wrap: confining, patience: 20 * time.Second,
		opt: doctor.Options{
			WorkDirs: []doctor.WorkDir{{WorkDirOptions: w, Configured: "codex"}}, Environ: os.Environ(), UID: os.Geteuid(),
			Socket: filepath.Join(dir, "run", "c.sock"),
		},
	}
}

// bareHouse is one in which no Codex is found: most of what a doctor looks at
// does not need one, and starting it is what takes time.
func bareHouse(t *testing.T) *house {
	t.Helper()
	h := newHouse(t)
	h.w().NotFound = errors.New("none is looked for")
	return h
}

func (h *house) w() *doctor.WorkDir { return &h.opt.WorkDirs[0] }

// check runs the doctor, finds nothing left behind, and returns one check.
func (h *house) check(id doctor.ID) doctor.Check {
	h.t.Helper()
	return find(h.t, h.run(h.t.Context()), id)
}

func (h *house) run(ctx context.Context) doctor.Report {
	h.t.Helper()
	before, tmp := listing(h.t, h.dir), listing(h.t, os.TempDir())
	r := doctor.RunBroken(ctx, h.opt, h.patience, h.wrap)
	if after := listing(h.t, h.dir); !slices.Equal(before, after) {
		h.t.Errorf("left behind: before %q, after %q", before, after)
	}
	if after := listing(h.t, os.TempDir()); len(after) > len(tmp) {
		h.t.Errorf("left in the temporary directory: %q", after)
	}
	if below, err := proc.Descendants(os.Getpid()); err != nil || len(below) > 0 {
		h.t.Errorf("processes left: %v %v", below, err)
	}
	if r.OK != (r.Count(doctor.Fail) == 0) {
		h.t.Errorf("ok is %t with %d failures", r.OK, r.Count(doctor.Fail))
	}
	for _, c := range r.Checks {
		_, skipped := c.NotChecked()
		if c.Found == "" || c.Status == doctor.Fail && c.Try == "" || skipped && c.Status != doctor.Warn {
			h.t.Errorf("incomplete: %+v", c)
		}
	}
	return r
}

func find(t *testing.T, r doctor.Report, id doctor.ID) doctor.Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c doctor.Check) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("no check %s in %+v", id, r)
	}
	return r.Checks[i]
}

// wants asserts how a check ended and words of what it says.
func wants(t *testing.T, c doctor.Check, status doctor.Status, found, try string) {
	t.Helper()
	if c.Status != status || !strings.Contains(c.Found, found) || !strings.Contains(c.Try, try) {
		t.Errorf("%s: %s %q, try %q; want %s %q, try %q", c.ID, c.Status, c.Found, c.Try, status, found, try)
	}
}

// confining answers the doctor's commands as a sandbox does that confines.
func confining(env []string, _ sandbox.ExecFunc) sandbox.ExecFunc {
	return func(_ context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
		if p.Command[0] == "cat" {
			text, err := os.ReadFile(p.Command[1])
			return rpc.CommandExecReply{Stdout: string(text)}, err
		}
		var out strings.Builder
		for i, path := range p.Command[4:] {
			if i == 0 || p.PermissionProfile == ":danger-full-access" {
				text, err := os.ReadFile(path)
				if err != nil {
					return rpc.CommandExecReply{}, err
				}
				out.Write(text)
			}
		}
		if p.PermissionProfile == ":danger-full-access" {
			out.WriteString(strings.Join(env, "\n"))
		}
		out.WriteString("\nprobe-end\n")
		return rpc.CommandExecReply{Stdout: out.String()}, nil
	}
}

func listing(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	if dir == os.TempDir() {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil && !os.IsPermission(err) {
			return err
		}
		names = append(names, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
