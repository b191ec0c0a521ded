package doctor_test

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
)

func TestRun(t *testing.T) {
	h := newHouse(t)
	r := h.run(t.Context())
	if !r.OK || r.Count(doctor.Fail) != 0 {
		t.Errorf("%+v", r)
	}
	var ids []doctor.ID
	for _, c := range r.Checks {
		ids = append(ids, c.ID)
		if c.WorkDir != "" {
			t.Errorf("one work dir, and %s names it", c.ID)
		}
	}
	// The order is part of what scripts and people rely on.
	want := []doctor.ID{
		"config_loads", "binary_found", "binary_native", "binary_version", "codex_config_loads", "login", "sandbox_works", "confinement",
		"dirs_writable", "dirs_apart", "disk_space", "clock", "hmac_key", "inotify_limits", "nofile_limit", "ports", "socket", "service_state",
	}
	if !slices.Equal(ids, want) {
		t.Errorf("checks %q", ids)
	}
	for _, id := range want {
		c := find(t, r, id)
		if c.Status != doctor.OK && id != doctor.ServiceState && id != doctor.NofileLimit && id != doctor.InotifyLimits {
			t.Errorf("%+v", c)
		}
	}
	wants(t, find(t, r, doctor.ServiceState), doctor.Warn, "no service runs", "codex-supervisor run --work "+h.w().Path)
	wants(t, find(t, r, doctor.BinaryVersion), doctor.OK, "codex 0.171.0", "")
	wants(t, find(t, r, doctor.Confinement), doctor.OK, "none of the canaries", "")

	all := slices.Clone(want)
	slices.Sort(all)
	listed := doctor.IDs()
	slices.Sort(listed)
	if !slices.Equal(all, listed) {
		t.Errorf("IDs() = %q", listed)
	}
}

func TestReport_JSON(t *testing.T) {
	raw, err := json.Marshal(doctor.Report{OK: true, Checks: []doctor.Check{{ID: doctor.Login, Status: doctor.OK, Found: "x"}}})
	if err != nil || string(raw) != `{"checks":[{"id":"login","status":"ok","found":"x","try":""}],"ok":true}` {
		t.Errorf("%s %v", raw, err)
	}
}

func TestRun_TwoWorkDirs(t *testing.T) {
	h, other := newHouse(t), newHouse(t)
	other.w().Name, other.w().NotFound = "den", errors.New("find codex: not there")
	h.opt.WorkDirs = append(h.opt.WorkDirs, *other.w())
	r := h.run(t.Context())
	var got []string
	for _, c := range r.Checks {
		if c.ID == doctor.BinaryFound || c.ID == doctor.Ports {
			got = append(got, c.WorkDir+" "+string(c.Status))
		}
	}
	if want := []string{"house ok", "den fail", " ok"}; !slices.Equal(got, want) || r.OK {
		t.Errorf("got %q, ok %t", got, r.OK)
	}
}

func TestRun_Config(t *testing.T) {
	h := bareHouse(t)
	h.opt.ConfigFile, h.opt.Warnings = "/etc/house.toml", []string{"one thing", "another"}
	wants(t, h.check(doctor.ConfigLoads), doctor.Warn, "/etc/house.toml: one thing; another", "")

	h.opt = doctor.Options{ConfigErr: errors.New("house.toml:3:1: unknown key")}
	r := h.run(t.Context())
	wants(t, find(t, r, doctor.ConfigLoads), doctor.Fail, "house.toml:3:1: unknown key", "config check")
	for _, id := range []doctor.ID{doctor.BinaryFound, doctor.Confinement, doctor.ServiceState, doctor.Ports, doctor.Socket} {
		wants(t, find(t, r, id), doctor.Warn, "not checked: the configuration does not load", "")
	}
	if len(r.Checks) != len(doctor.IDs()) || r.OK {
		t.Errorf("%d checks, ok %t", len(r.Checks), r.OK)
	}
}

// A Codex that answers nothing and does not end must not make a doctor that
// does the same, nor outlive it.
func TestRun_EndsWhateverHangs(t *testing.T) {
	h := newHouse(t)
	h.w().Env = append(h.w().Env, "STUB_MUTE=1", "STUB_DEAF=1")
	h.patience = time.Second
	began := time.Now()
	r := h.run(t.Context())
	if took := time.Since(began); took > doctor.Limit {
		t.Errorf("took %s", took)
	}
	wants(t, find(t, r, doctor.CodexConfigLoads), doctor.Fail, "codex does not come up: no answer in time", "run it by hand")
	wants(t, find(t, r, doctor.Confinement), doctor.Warn, "not checked", "")
}

func TestBounded(t *testing.T) {
	release, ended := make(chan struct{}), make(chan struct{})
	got := doctor.Bounded(t.Context(), time.Millisecond, []doctor.ID{doctor.Clock}, func() []doctor.Check {
		defer close(ended)
		<-release
		return nil
	})
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	wants(t, got[0], doctor.Fail, "no answer in time", "network file system")
	close(release)
	<-ended
}

// A house that a killed doctor left goes with the next one; a fresh one may be
// another doctor's.
func TestRun_SweepsWhatAKilledOneLeft(t *testing.T) {
	h := newHouse(t)
	old, fresh := filepath.Join(h.w().State, ".codex-supervisor-doctor-1"), filepath.Join(h.w().State, ".codex-supervisor-doctor-2")
	mkdir(t, filepath.Join(old, "rooms", "r"))
	mkdir(t, fresh)
	age(t, old)
	doctor.RunBroken(t.Context(), h.opt, h.patience, h.wrap)
	if got := listing(t, h.w().State); !slices.Equal(got, []string{h.w().State, fresh}) {
		t.Errorf("left: %q", got)
	}
}

func TestText(t *testing.T) {
	if got := doctor.OneLine(" a\x1b[31m\n\tb\u202e c ", 6); got != "a [31…" {
		t.Errorf("%q", got)
	}
	for n, want := range map[uint64]string{5 << 20: "5 MB", 3 << 29: "1.5 GB", 75 << 30: "75 GB"} {
		if got := doctor.Size(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
}
