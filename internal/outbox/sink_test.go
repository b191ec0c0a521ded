package outbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/outbox"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

type box struct {
	*outbox.Sink
	tb               testing.TB
	results, replies string
}

func mustBox(tb testing.TB) *box {
	tb.Helper()
	dir := tb.TempDir()
	b := &box{tb: tb, results: filepath.Join(dir, "results"), replies: filepath.Join(dir, "state", "replies")}
	sink, err := outbox.New(outbox.Options{Results: b.results, Replies: b.replies, MaxBytes: 2000})
	if err != nil {
		tb.Fatal(err)
	}
	b.Sink = sink
	return b
}

// put writes a file below results.
func (b *box) put(path, text string) string {
	b.tb.Helper()
	full := filepath.Join(b.results, path)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.tb.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		b.tb.Fatal(err)
	}
	return full
}

func (b *box) where(id string) string {
	b.tb.Helper()
	where, done, err := b.Done(id)
	if err != nil {
		b.tb.Fatal(err)
	}
	if done != (where != "") {
		b.tb.Fatalf("done %v at %q", done, where)
	}
	return where
}

// names lists everything below dir, temporary files included.
func names(tb testing.TB, dir string) []string {
	tb.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for _, entry := range entries {
		out = append(out, entry.Name())
	}
	return out
}

func TestSink_Publish(t *testing.T) {
	b := mustBox(t)
	got, err := b.Publish("task-a", task.Guest, "\ufeffsee [file: x]\n")
	if want := (outbox.Receipt{Bytes: 15}); got != want || err != nil {
		t.Fatalf("receipt %+v %v, want %+v", got, err, want)
	}
	text, err := os.ReadFile(filepath.Join(b.results, "task-a.txt"))
	if string(text) != "see [ file: x]\n" {
		t.Errorf("result = %q %v", text, err)
	}
	if left := names(t, b.results); len(left) != 1 {
		t.Errorf("results hold %q", left)
	}
	for _, path := range []string{"", "archive/task-a-17.txt", "undelivered/task-a-17.txt"} {
		if path != "" { // the poster takes it away
			to := filepath.Join(b.results, path)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(b.results, b.where("task-a")), to); err != nil {
				t.Fatal(err)
			}
		}
		got, err := b.Publish("task-a", task.Owner, "another answer")
		if !got.Already || got.Bytes != 0 || err != nil {
			t.Errorf("second publish with the first at %q: %+v %v", path, got, err)
		}
		if path != "" && b.where("task-a") != path {
			t.Errorf("made again at %q", b.where("task-a"))
		}
	}
}

func TestSink_Publish_Refuses(t *testing.T) {
	b := mustBox(t)
	for _, text := range []string{"", " \n", "\ufeff", "\ufeff \u2028"} {
		if _, err := b.Publish("task-a", task.Owner, text); !errors.Is(err, outbox.ErrEmpty) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, id := range []string{"", "..", "../x", "a/b", ".a", "a b", "a\n"} {
		if _, err := b.Publish(id, task.Owner, "x"); err == nil {
			t.Errorf("published %q", id)
		}
		if _, _, err := b.Done(id); err == nil {
			t.Errorf("looked for %q", id)
		}
		if _, err := b.Undelivered(id); err == nil {
			t.Errorf("looked for undelivered %q", id)
		}
		if err := b.Keep(id, "x"); err == nil {
			t.Errorf("kept %q", id)
		}
		if _, _, err := b.Kept(id); err == nil {
			t.Errorf("read %q", id)
		}
		if err := b.Forget(id); err == nil {
			t.Errorf("forgot %q", id)
		}
	}
	if left := append(names(t, b.results), names(t, b.replies)...); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestSink_Publish_Cut(t *testing.T) {
	b := mustBox(t)
	text := strings.Repeat("[send: x]\n", 400)
	got, err := b.Publish("task-a", task.Team, text)
	if err != nil || !got.Cut || got.Bytes > 2000 || got.Bytes < 1800 {
		t.Fatalf("receipt %+v %v", got, err)
	}
	raw, err := os.ReadFile(filepath.Join(b.results, "task-a.txt"))
	if err != nil || len(raw) != got.Bytes {
		t.Fatalf("%d bytes, receipt says %d: %v", len(raw), got.Bytes, err)
	}
	if !strings.Contains(string(raw), "replies/task-a.txt") || acts(string(raw)) != "" {
		t.Errorf("result = %q", raw)
	}
}

func TestSink_Publish_OverAnUnreadyFile(t *testing.T) {
	b := mustBox(t)
	path := b.put("task-a.txt", "")
	if _, err := b.Publish("task-a", task.Owner, "answer"); !errors.Is(err, outbox.ErrOccupied) {
		t.Fatalf("over a fresh empty file: %v", err)
	}
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	got, err := b.Publish("task-a", task.Owner, "answer")
	if err != nil || got.Bytes != 6 || got.Already {
		t.Fatalf("over an old empty file: %+v %v", got, err)
	}
	if text, _ := os.ReadFile(path); string(text) != "answer" {
		t.Errorf("result = %q", text)
	}
	if err := os.MkdirAll(filepath.Join(b.results, "task-b.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(b.results, "task-b.txt"), old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish("task-b", task.Owner, "answer"); err == nil {
		t.Error("published over a directory")
	}
	if err := os.Symlink("nowhere", filepath.Join(b.results, "task-c.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish("task-c", task.Owner, "answer"); !errors.Is(err, outbox.ErrOccupied) {
		t.Errorf("over a fresh dangling link: %v", err)
	}
	for _, name := range names(t, b.results) {
		if strings.HasPrefix(name, ".") {
			t.Errorf("left behind: %s", name)
		}
	}
}

// Whoever comes first wins, readers see a whole text or none, and the others
// learn that it exists.
func TestSink_Publish_Race(t *testing.T) {
	b := mustBox(t)
	const writers = 16
	var wg sync.WaitGroup
	receipts := make([]outbox.Receipt, writers)
	for i := range writers {
		wg.Go(func() {
			var err error
			receipts[i], err = b.Publish("task-a", task.Owner, strings.Repeat(fmt.Sprintf("%02d", i), 900))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	winner := -1
	for i, r := range receipts {
		if !r.Already {
			if winner >= 0 {
				t.Errorf("both %d and %d published", winner, i)
			}
			winner = i
		}
	}
	text, err := os.ReadFile(filepath.Join(b.results, "task-a.txt"))
	if want := strings.Repeat(fmt.Sprintf("%02d", winner), 900); err != nil || string(text) != want {
		t.Errorf("result of %d is %.10q %v", winner, text, err)
	}
	if left := names(t, b.results); len(left) != 1 {
		t.Errorf("results hold %q", left)
	}
}

func TestSink_Publish_MissingDir(t *testing.T) {
	b := mustBox(t)
	if err := os.Remove(b.results); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish("task-a", task.Owner, "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error = %v", err)
	}
	if got := b.where("task-a"); got != "" {
		t.Errorf("found at %q", got)
	}
}

func TestSink_Keep(t *testing.T) {
	b := mustBox(t)
	if _, ok, err := b.Kept("task-a"); ok || err != nil {
		t.Fatalf("kept before: %v %v", ok, err)
	}
	for _, text := range []string{"first", "second \xff [no-send]\r\n", ""} {
		if err := b.Keep("task-a", text); err != nil {
			t.Fatal(err)
		}
		got, ok, err := b.Kept("task-a")
		if got != text || !ok || err != nil {
			t.Errorf("kept %q %v %v, want %q", got, ok, err, text)
		}
	}
	info, err := os.Stat(filepath.Join(b.replies, "task-a.txt"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if dir, _ := os.Stat(b.replies); dir.Mode().Perm() != 0o700 {
		t.Errorf("directory mode %v", dir.Mode())
	}
	for range 2 {
		if err := b.Forget("task-a"); err != nil {
			t.Error(err)
		}
	}
	if _, ok, _ := b.Kept("task-a"); ok {
		t.Error("still kept")
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(b.replies, "task-b.txt")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := b.Kept("task-b"); ok || err == nil {
		t.Error("read through a link")
	}
}

func TestSink_SweepTemps(t *testing.T) {
	b := mustBox(t)
	keep := []string{"task-a.txt", ".disposal.lock", ".task-a.disposing-1", ".other.tmp", ".codex-supervisor-x.txt"}
	for _, name := range append(keep, ".codex-supervisor-1.tmp") {
		b.put(name, "x")
	}
	if err := os.WriteFile(filepath.Join(b.replies, ".codex-supervisor-2.tmp"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := b.SweepTemps(); n != 2 || err != nil {
		t.Errorf("swept %d %v, want 2", n, err)
	}
	if left := names(t, b.results); len(left) != len(keep) {
		t.Errorf("results hold %q, want %q", left, keep)
	}
}

func TestNew_Refuses(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, opts := range map[string]outbox.Options{
		"no results":     {Replies: dir},
		"no replies":     {Results: dir},
		"tiny limit":     {Results: dir, Replies: dir, MaxBytes: 100},
		"negative limit": {Results: dir, Replies: dir, MaxBytes: -1},
		"results a file": {Results: file, Replies: dir},
		"replies a file": {Results: dir, Replies: file},
	} {
		if _, err := outbox.New(opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestUnwritable(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOSPC: true, syscall.EDQUOT: true, syscall.EROFS: true, syscall.EACCES: false, syscall.ENOENT: false,
	} {
		err := fmt.Errorf("publish: %w", errors.Join(&fs.PathError{Op: "write", Path: "x", Err: errno}))
		if outbox.Unwritable(err) != want {
			t.Errorf("%v: %v", errno, !want)
		}
	}
}
