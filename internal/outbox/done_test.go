package outbox_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
)

func TestSink_Done(t *testing.T) {
	for name, c := range map[string]struct {
		path, text string
		done       bool
	}{
		"live":                       {"task-a.txt", "x", true},
		"live, BOM only":             {"task-a.txt", "\ufeff", true},
		"live, empty":                {"task-a.txt", "", false},
		"live, blank":                {"task-a.txt", " \n\u2028\x1c", false},
		"live, cut in a rune":        {"task-a.txt", "x\xc3", false},
		"live, other id":             {"task-ab.txt", "x", false},
		"live, stamped":              {"task-a-1770000000.txt", "x", false},
		"archive":                    {"archive/task-a.txt", "x", true},
		"archive, empty":             {"archive/task-a.txt", "\n", false},
		"archive, stamped":           {"archive/task-a-1770000000.txt", "x", true},
		"archive, stamped, empty":    {"archive/task-a-1770000000.txt", "", false},
		"archive, longer id":         {"archive/task-a-1-x.txt", "x", false},
		"archive, late duplicate":    {"archive/task-a-1770000000-late-duplicate.txt", "x", false},
		"archive, collision":         {"archive/task-a-1770000000.txt.2", "x", false},
		"archive, no digits":         {"archive/task-a-.txt", "x", false},
		"archive, not digits only":   {"archive/task-a-12x.txt", "x", false},
		"archive, other digits":      {"archive/task-a-١٢.txt", "x", false},
		"archive, dotted":            {"archive/.task-a.txt", "x", false},
		"month":                      {"archive/2026-02/task-a.txt", "x", true},
		"month, stamped":             {"archive/2026-02/task-a-1770000000.txt", "x", true},
		"month, longer id":           {"archive/2026-02/task-a-1-1.txt", "x", false},
		"not a month":                {"archive/2026-2/task-a.txt", "x", false},
		"day":                        {"archive-2026-02-03/task-a.txt", "x", true},
		"day, stamped":               {"archive-2026-02-03/task-a-1770000000.txt", "x", false},
		"not a day":                  {"archive-2026-02/task-a.txt", "x", false},
		"undelivered":                {"undelivered/task-a-1770000000.txt", "x", true},
		"undelivered, nanoseconds":   {"undelivered/task-a-1770000000123456789.txt", "x", true},
		"undelivered, plain":         {"undelivered/task-a.txt", "x", true},
		"undelivered, empty":         {"undelivered/task-a-1770000000.txt", "", true},
		"undelivered, no task":       {"undelivered/task-a.no-task.1770000000.txt", "x", true},
		"undelivered, too old":       {"undelivered/task-a.too-old.1770000000.txt", "x", true},
		"undelivered, attachments":   {"undelivered/task-a.has-attachments.1770000000.txt", "x", true},
		"undelivered, deduped":       {"undelivered/task-a.deduped-orphan.1770000000.txt", "x", true},
		"undelivered, longer id":     {"undelivered/task-a-1-1770000000.txt", "x", false},
		"undelivered, dotted id":     {"undelivered/task-a.b.no-task.1770000000.txt", "x", false},
		"undelivered, no stamp":      {"undelivered/task-a.no-task.txt", "x", false},
		"retired is no result":       {"retired/task-a.txt", "x", false},
		"outbox is no result":        {".outbox/task-a.txt", "x", false},
		"a directory of that name":   {"task-a.txt/x", "x", false},
		"a dir named as undelivered": {"undelivered/task-a-1.txt/x", "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := mustBox(t)
			b.put(c.path, c.text)
			where := b.where("task-a")
			if c.done && where != c.path {
				t.Errorf("found at %q, want %q", where, c.path)
			}
			if !c.done && where != "" {
				t.Errorf("found at %q, want nothing", where)
			}
			gone, err := b.Undelivered("task-a")
			if want := c.done && strings.HasPrefix(c.path, "undelivered/"); gone != want || err != nil {
				t.Errorf("undelivered = %v %v, want %v", gone, err, want)
			}
		})
	}
}

func TestSink_Done_SearchesOnPastUnreadyOnes(t *testing.T) {
	b := mustBox(t)
	for _, step := range []struct{ path, text, want string }{
		{"task-a.txt", "", ""},
		{"archive/task-a.txt", "\xff", ""},
		{"archive/2026-01/task-a-5.txt", "old", "archive/2026-01/task-a-5.txt"},
		{"archive/2026-02/task-a-7.txt", " ", "archive/2026-01/task-a-5.txt"},
		{"archive/2026-02/task-a-6.txt", "newer", "archive/2026-02/task-a-6.txt"},
		{"archive/2026-02/task-a.txt", "plain name first", "archive/2026-02/task-a.txt"},
		{"archive/task-a.txt", "now ready", "archive/task-a.txt"},
		{"task-a.txt", "live", "task-a.txt"},
	} {
		b.put(step.path, step.text)
		if got := b.where("task-a"); got != step.want {
			t.Errorf("after %s: %q, want %q", step.path, got, step.want)
		}
	}
}

// A listing taken right after a change is not used again: another change
// could carry the same time stamp. Setting the modification time back hides
// nothing, as the change time moves.
func TestSink_Done_FreshListingsAreNotReused(t *testing.T) {
	b := mustBox(t)
	archive := filepath.Dir(b.put("archive/other.txt", "x"))
	long := time.Now().Add(-time.Hour)
	for i := range 50 {
		id := fmt.Sprintf("task-%d", i)
		if got := b.where(id); got != "" {
			t.Fatalf("%s found at %q before it was made", id, got)
		}
		b.put("archive/"+id+"-17.txt", "x")
		if err := os.Chtimes(archive, long, long); err != nil {
			t.Fatal(err)
		}
		if got := b.where(id); got != "archive/"+id+"-17.txt" {
			t.Fatalf("%s not found after it was made: %q", id, got)
		}
		if b.TestOnlyCached(archive) {
			t.Fatal("a listing of a directory that just changed was kept")
		}
	}
}

// A settled listing is used again until the directory changes, even when
// its modification time is set to what it was.
func TestSink_Done_SettledListingsFollowChanges(t *testing.T) {
	b := mustBox(t)
	b.TestOnlyNow(func() time.Time { return time.Now().Add(time.Hour) })
	archive := filepath.Dir(b.put("archive/other.txt", "x"))
	for i := range 5 {
		id := fmt.Sprintf("task-%d", i)
		if got := b.where(id); got != "" || !b.TestOnlyCached(archive) {
			t.Fatalf("%s at %q, listing kept: %v", id, got, b.TestOnlyCached(archive))
		}
		before, err := os.Stat(archive)
		if err != nil {
			t.Fatal(err)
		}
		stamp := durable.StampOf(before)
		b.put("archive/"+id+".txt", "x")
		// The clock of time stamps is coarse; wait for its next tick.
		for {
			if err := os.Chtimes(archive, before.ModTime(), before.ModTime()); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(archive); err != nil || !durable.StampOf(info).Changed.Equal(stamp.Changed) {
				break
			}
		}
		if got := b.where(id); got != "archive/"+id+".txt" {
			t.Fatalf("%s not found after it was made: %q", id, got)
		}
	}
}

func BenchmarkDone(b *testing.B) {
	box := mustBox(b)
	for i := range 30000 {
		box.put(fmt.Sprintf("archive/task-%d-1770000000.txt", i), "x")
	}
	b.Run("settled", func(b *testing.B) {
		deadline := time.Now().Add(4 * time.Second)
		for time.Now().Before(deadline) { // until the listing may be reused
			box.where("task-none")
		}
		for b.Loop() {
			if box.where("task-777") == "" {
				b.Fatal("not found")
			}
		}
	})
	b.Run("changed", func(b *testing.B) {
		i := 0
		for b.Loop() {
			box.put(fmt.Sprintf("archive/new-%d.txt", i), "x")
			i++
			if box.where("task-777") == "" {
				b.Fatal("not found")
			}
		}
	})
}
