package doctor_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func TestBinary_Found(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(h *house, path string)
		found  string
	}{
		"NotOnPath": {func(h *house, _ string) { h.w().NotFound = errors.New("find codex: not on PATH") }, "not on PATH"},
		"Gone":      {func(*house, string) {}, "does not exist"},
		"Directory": {func(h *house, path string) { mkdir(h.t, path) }, "is no program"},
		"NoProgram": {func(h *house, path string) { write(h.t, path, "x", 0o600) }, "is no program"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.w().Codex = []string{filepath.Join(h.dir, "codex")}
			tc.change(h, h.w().Codex[0])
			r := h.run(t.Context())
			wants(t, find(t, r, doctor.BinaryFound), doctor.Fail, tc.found, "npm install -g @openai/codex")
			for _, id := range []doctor.ID{doctor.BinaryNative, doctor.BinaryVersion, doctor.Login, doctor.SandboxWorks, doctor.Confinement} {
				wants(t, find(t, r, id), doctor.Warn, "not checked: no codex", "")
			}
		})
	}
}

func TestBinary_Native(t *testing.T) {
	h := newHouse(t)
	script := filepath.Join(h.dir, "codex")
	write(t, script, "#!/bin/sh\nexec "+h.w().Codex[0]+` "$@"`+"\n", 0o700)
	h.w().Codex = []string{script}
	r := h.run(t.Context())
	wants(t, find(t, r, doctor.BinaryNative), doctor.Fail, "is a script", "vendor/")
	wants(t, find(t, r, doctor.BinaryVersion), doctor.OK, "0.171.0", "") // looked at all the same

	write(t, script, "no program of any kind", 0o700)
	r = h.run(t.Context())
	wants(t, find(t, r, doctor.BinaryNative), doctor.Warn, "of no kind that is known", "")
	wants(t, find(t, r, doctor.BinaryVersion), doctor.Fail, "codex --version: ", "by hand")
	wants(t, find(t, r, doctor.Login), doctor.Warn, "not checked: this codex cannot be used", "")
}

func TestBinary_Version(t *testing.T) {
	for version, want := range map[string]struct {
		status     doctor.Status
		found, try string
	}{
		"0.150.9":  {doctor.Fail, "0.150.9 is too old: 0.151.0 or newer", "@openai/codex@0.171.0"},
		"0.151.0":  {doctor.OK, "codex 0.151.0, in the tested range", ""},
		"0.171.9":  {doctor.OK, "codex 0.171.9", ""},
		"0.172.0":  {doctor.Warn, "newer than what was tested (0.151 to 0.171)", "@openai/codex@0.171.0"},
		"1.0.0":    {doctor.Warn, "newer", ""},
		"unstable": {doctor.Warn, `unknown version "codex-cli unstable"`, ""},
	} {
		t.Run(version, func(t *testing.T) {
			h := newHouse(t)
			h.w().Env = append(h.w().Env, "STUB_VERSION="+version)
			wants(t, h.check(doctor.BinaryVersion), want.status, want.found, want.try)
		})
	}
	h := newHouse(t)
	h.opt.Service = &control.Status{Status: supervisor.Status{WorkDirs: []supervisor.WorkDirStatus{{
		Name: "house", Path: h.w().Path, State: h.w().State, Child: supervisor.ChildStatus{State: supervisor.ChildReady, Version: "0.170.0"},
	}}}}
	wants(t, h.check(doctor.BinaryVersion), doctor.Warn, "0.171.0 on disk, but the service's child is still 0.170.0", "codex-supervisor restart house")

	h = newHouse(t)
	script := filepath.Join(h.dir, "codex")
	for text, found := range map[string]string{
		"echo broken >&2; exit 3": "exit status 3: broken",
		"kill -9 $$":              "ended by ",
	} {
		write(t, script, "#!/bin/sh\n"+text+"\n", 0o700)
		h.w().Codex = []string{script}
		wants(t, h.check(doctor.BinaryVersion), doctor.Fail, found, script+" --version")
	}
}

func TestBinary_Unreadable(t *testing.T) {
	h := newHouse(t)
	exe, err := os.ReadFile(h.w().Codex[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(h.dir, "codex")
	write(t, path, string(exe), 0o100)
	h.w().Codex = []string{path}
	if _, err := os.ReadFile(path); err == nil {
		t.Skip("this user may read everything")
	}
	wants(t, h.check(doctor.BinaryNative), doctor.Warn, "not readable", "")
}
