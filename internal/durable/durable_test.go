package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
)

func holds(tb testing.TB, path, want string) {
	tb.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		tb.Errorf("%s holds %q %v, want %q", filepath.Base(path), got, err, want)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		tb.Errorf("directory holds %v %v, want one file", entries, err)
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	if err := durable.Create(path, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds(t, path, "one")
	if err := durable.Create(path, []byte("two"), 0o600); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second create: %v", err)
	}
	holds(t, path, "one")
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 {
		t.Errorf("mode = %v", info.Mode())
	}
}

func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	for _, text := range []string{"one", "two", ""} {
		if err := durable.Replace(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		holds(t, path, text)
	}
	dir := filepath.Join(t.TempDir(), "d")
	if err := os.MkdirAll(filepath.Join(dir, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.Replace(dir, nil, 0o644); err == nil {
		t.Error("replaced a directory")
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("left behind: %v", entries)
	}
}

func TestWrite_MissingDir(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "no", "a.txt")
	for name, err := range map[string]error{
		"create":  durable.Create(missing, nil, 0o600),
		"replace": durable.Replace(missing, nil, 0o600),
		"sync":    durable.SyncDir(filepath.Dir(missing)),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n, err := durable.Sweep(filepath.Dir(missing)); n != 0 || err != nil {
		t.Errorf("sweep: %d %v", n, err)
	}
}

// File systems without hard links get a rename that does not replace either.
func TestPlace_WithoutHardLinks(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for i, text := range []string{"one", "two"} {
		if err := os.WriteFile(from, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		err := durable.RenameNoReplace(from, to)
		if i == 0 && err != nil {
			t.Fatal(err)
		}
		if i == 1 && !errors.Is(err, fs.ErrExist) {
			t.Errorf("over a taken name: %v", err)
		}
	}
	if got, _ := os.ReadFile(to); string(got) != "one" {
		t.Errorf("holds %q", got)
	}
}

func TestStampOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	stamp := func() durable.Stamp {
		info, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		return durable.StampOf(info)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	first := stamp()
	if first != stamp() || first.Size != 1 || first.Inode == 0 || first.Changed.IsZero() {
		t.Errorf("stamp = %+v", first)
	}
	other := path + "2"
	if err := os.WriteFile(other, []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, first.Modified, first.Modified); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	if stamp() == first {
		t.Error("another file of the same size and time has the same stamp")
	}
}

func TestSweep(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".codex-supervisor-1.tmp", ".codex-supervisor-2.tmp", ".codex-supervisor-3.txt", ".other.tmp", "a.txt"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, ".codex-supervisor-4.tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	if n, err := durable.Sweep(dir); n != 2 || err != nil {
		t.Errorf("swept %d %v, want 2", n, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 4 {
		t.Errorf("left %v", left)
	}
	if _, err := durable.Sweep(filepath.Join(dir, "a.txt")); err == nil {
		t.Error("swept a file")
	}
}

// A step that fails leaves nothing behind and keeps its reason.
func TestWrite_FailedStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.txt")
	full := &os.LinkError{Op: "link", Old: "x", New: path, Err: syscall.ENOSPC}
	err := durable.Write(path, []byte("x"), 0o600, func(string, string) error { return full })
	if !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error = %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}

// Only a file system that has no hard links leads to the other step.
func TestCannotLink(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.EPERM: true, syscall.ENOTSUP: true, syscall.ENOSYS: true, syscall.EMLINK: true,
		syscall.ENOSPC: false, syscall.EACCES: false, syscall.ENOENT: false, syscall.EROFS: false,
	} {
		if got := durable.CannotLink(&os.LinkError{Op: "link", Err: errno}); got != want {
			t.Errorf("%v: %v", errno, got)
		}
	}
}
