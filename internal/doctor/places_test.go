package doctor_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// age makes a file an hour old.
func age(t *testing.T, path string) {
	t.Helper()
	then := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, then, then); err != nil {
		t.Fatal(err)
	}
}

func TestDirs_Writable(t *testing.T) {
	h := newHouse(t)
	wants(t, h.check(doctor.DirsWritable), doctor.OK, "tasks, results and state", "")
	for _, d := range []string{h.w().Results, h.w().State} {
		if err := os.RemoveAll(d); err != nil {
			t.Fatal(err)
		}
	}
	// What the service makes by itself is no problem, and nothing here makes it.
	r := h.run(t.Context())
	wants(t, find(t, r, doctor.DirsWritable), doctor.OK, "can be made: results, state", "")
	wants(t, find(t, r, doctor.Confinement), doctor.OK, "", "")

	for name, tc := range map[string]struct {
		change     func(*house)
		found, try string
	}{
		"NoWorkDir":   {func(h *house) { h.w().Path = filepath.Join(h.dir, "none") }, "none does not exist", "mkdir -p "},
		"WorkDirFile": {func(h *house) { write(h.t, h.dir+"/file", "", 0o600); h.w().Path = h.dir + "/file" }, "is no directory", "--work"},
		"Results":     {func(h *house) { chmod(h.t, h.w().Results, 0o500) }, "results: ", "chown it to the service's user"},
		"State":       {func(h *house) { chmod(h.t, h.w().State, 0o500) }, "state: ", "--state"},
		"TasksFile":   {func(h *house) { _ = os.Remove(h.w().Tasks); write(h.t, h.w().Tasks, "", 0o600) }, "not a directory", "--tasks"},
		"NoEntry":     {func(h *house) { chmod(h.t, h.w().Path, 0) }, "permission denied", ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := bareHouse(t)
			tc.change(h)
			wants(t, h.check(doctor.DirsWritable), doctor.Fail, tc.found, tc.try)
		})
	}
	if os.Geteuid() != 0 { // root in name only: the directories are ours
		h := bareHouse(t)
		h.opt.UID = 0
		wants(t, h.check(doctor.DirsWritable), doctor.Warn, "written as root, which says little", "sudo -u USER")
	}
}

func chmod(t *testing.T, dir string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(dir, mode); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if f, err := os.CreateTemp(dir, ""); err == nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		t.Skip("no mode binds this user")
	}
}

func TestDirs_Apart(t *testing.T) {
	h := bareHouse(t)
	link := filepath.Join(h.dir, "link")
	if err := os.Symlink(h.w().Tasks, link); err != nil {
		t.Fatal(err)
	}
	h.w().Results = link
	wants(t, h.check(doctor.DirsApart), doctor.Fail, "results ("+link+") and tasks", "--results")
	h = bareHouse(t)
	h.w().State = filepath.Join(h.w().Results, "deep", "state")
	wants(t, h.check(doctor.DirsApart), doctor.Fail, "must not be or lie in one another", "--state")
	h = bareHouse(t)
	h.w().State = filepath.Join(h.w().Path, "own")
	wants(t, h.check(doctor.DirsApart), doctor.Warn, "lies in the work dir", "--state")
	h = bareHouse(t)
	h.w().Cwd = h.dir
	wants(t, h.check(doctor.DirsApart), doctor.Warn, "lies in the cwd", "")
}

func TestJudgeSpace(t *testing.T) {
	for _, tc := range []struct {
		bytes, inodes, free uint64
		status              doctor.Status
		found               string
	}{
		{199 << 20, 0, 0, doctor.Fail, "199 MB free for state, less than 200 MB"},
		{200 << 20, 0, 0, doctor.Warn, "200 MB free for state, less than 1.0 GB"},
		{1 << 30, 0, 0, doctor.OK, "1.0 GB free"},
		{9 << 30, 1e6, 999, doctor.Fail, "999 inodes"},
		{9 << 30, 1e6, 1000, doctor.OK, ""},
	} {
		wants(t, doctor.JudgeSpace(tc.bytes, tc.inodes, tc.free), tc.status, tc.found, "")
	}
	h := bareHouse(t)
	h.w().Tasks = filepath.Join(h.w().KeyFile, "x")
	write(t, h.w().KeyFile, "", 0o600)
	wants(t, h.check(doctor.DiskSpace), doctor.Fail, "not a directory", "dirs_writable")
}

func TestJudgeClock(t *testing.T) {
	now := time.Now()
	at := func(s float64) time.Time { return now.Add(time.Duration(s * float64(time.Second))) }
	for _, tc := range []struct {
		made   float64
		status doctor.Status
		found  string
	}{
		{0, doctor.OK, ""},
		{-1.9, doctor.OK, ""},
		{6.9, doctor.OK, ""},
		{-3, doctor.Fail, "3s behind the clock"},
		{9, doctor.Fail, "4s ahead of the clock"},
	} {
		wants(t, doctor.JudgeClock(at(tc.made), now, at(5)), tc.status, tc.found, "")
	}
	h := bareHouse(t)
	chmod(t, h.w().State, 0o500)
	wants(t, h.check(doctor.Clock), doctor.Warn, "not checked: no file can be made", "")
}

func TestKey(t *testing.T) {
	good := strings.Repeat("0f", 32)
	for name, tc := range map[string]struct {
		text   string
		mode   os.FileMode
		policy task.Policy
		status doctor.Status
		found  string
		try    string
	}{
		"Absent":        {"", 0, "", doctor.OK, "envelope auto means accept", ""},
		"AbsentStrict":  {"", 0, task.PolicyStrict, doctor.Fail, "every task is refused", "hmac_key"},
		"Good":          {good + "\n", 0o600, "", doctor.OK, "envelope auto means layout", ""},
		"GoodStrict":    {good, 0o400, task.PolicyStrict, doctor.OK, "envelope strict means strict", ""},
		"ReadableByAll": {good, 0o644, "", doctor.Fail, "mode 0644", "chmod 600"},
		"ReadableByKin": {good, 0o640, "", doctor.Fail, "mode 0640", "chmod 600"},
		"Short":         {good[2:], 0o600, "", doctor.Fail, "is no key", "openssl rand -hex 32"},
		"Empty":         {"", 0o600, "", doctor.Fail, "is no key", ""},
		"NotReadable":   {good, 0o200, "", doctor.Fail, "permission denied", "chown"},
	} {
		t.Run(name, func(t *testing.T) {
			h := bareHouse(t)
			h.w().Envelope = tc.policy
			if tc.mode != 0 {
				write(t, h.w().KeyFile, tc.text, tc.mode)
			}
			if _, err := os.ReadFile(h.w().KeyFile); err == nil && tc.mode == 0o200 {
				t.Skip("no mode binds this user")
			}
			c := h.check(doctor.HMACKey)
			wants(t, c, tc.status, tc.found, tc.try)
			if len(tc.text) > 8 && strings.Contains(c.Found+c.Try, tc.text[:8]) {
				t.Errorf("shows the key: %+v", c)
			}
		})
	}
	h := bareHouse(t)
	mkdir(t, h.w().KeyFile)
	wants(t, h.check(doctor.HMACKey), doctor.Fail, "no regular file", "")
	h.w().KeyFile = ""
	wants(t, h.check(doctor.HMACKey), doctor.OK, "none", "")
}

func TestJudgeFiles(t *testing.T) {
	wants(t, doctor.JudgeFiles(1024), doctor.Fail, "at most 1024 open files", "LimitNOFILE")
	wants(t, doctor.JudgeFiles(4096), doctor.Warn, "2048 loaded threads", "LimitNOFILE")
	wants(t, doctor.JudgeFiles(8192), doctor.OK, "8192", "")
	wants(t, doctor.JudgeFiles(1<<63), doctor.OK, "no limit", "")
}
