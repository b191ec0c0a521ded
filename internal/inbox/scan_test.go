package inbox_test

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/inbox"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

const second = time.Second

func TestSource_SeesTaskFilesOnly(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		r.put("task-a.txt", ask)
		r.put("odd.id_~1.txt", ask)
		r.put(".task-b.txt", ask)
		r.put("task-c.txt.tmp", ask)
		r.put("task-d.txt.2", ask)
		r.put("task-e", ask)
		r.put("task-f.claimed-w1.txt", ask)
		r.put("task-g.assigned-w1.txt", ask)
		r.put("note one.txt", ask)
		for _, err := range []error{
			os.Mkdir(r.path("task-h.txt"), 0o755),
			os.Symlink(r.path("task-a.txt"), r.path("task-i.txt")),
			os.Symlink("nowhere", r.path("task-j.txt")),
			syscall.Mkfifo(r.path("task-k.txt"), 0o644),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i, name := range []string{"note one.txt", "odd.id_~1.txt", "task-a.txt"} {
			r.age(name, at.Add(time.Duration(i)))
		}
		step(10 * second)
		r.mu.Lock()
		listed := slices.Contains(r.told, "listed 2")
		r.mu.Unlock()
		if !listed {
			t.Error("want a listing of 2")
		}
		r.expect("start", "rejected note one file_name_bad", "found odd.id_~1 owner", "found task-a owner")
		step(time.Hour)
		r.expect("an hour later")
		if entries, _ := os.ReadDir(r.dir); len(entries) != 13 {
			t.Errorf("%d files left, want all 13", len(entries))
		}
	})
}

func TestSource_Order(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i, f := range []struct{ name, priority string }{
			{"task-low", "low"}, {"task-b", "normal"}, {"task-a", "normal"}, {"task-old", "normal"}, {"task-urgent", "urgent"},
		} {
			r.put(f.name+".txt", "priority: "+f.priority+"\n"+ask)
			when := at.Add(time.Hour)
			switch i {
			case 0, 3:
				when = at
			case 4:
				when = at.Add(2 * time.Hour)
			}
			r.age(f.name+".txt", when)
		}
		step(10 * second)
		r.expect("start", "found task-urgent owner", "found task-old owner", "found task-a owner", "found task-b owner", "found task-low owner")
		for _, name := range []string{"task-b", "task-low"} {
			r.remove(name + ".txt")
		}
		r.put("task-new.txt", ask)
		step(10 * second)
		told := r.take()
		if len(told) == 3 {
			slices.Sort(told[:2])
		}
		if want := []string{"gone task-b", "gone task-low", "found task-new owner"}; !slices.Equal(told, want) {
			t.Errorf("told %q, want %q", told, want)
		}
	})
}

func TestSource_Item(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		text := "access_tier: team\nchannel_id: ..\npriority: low\ntask: hello\n"
		r.put("task-a.txt", text)
		r.age("task-a.txt", at)
		step(second)
		found, ok := r.events()[0].(inbox.Found)
		if !ok {
			t.Fatalf("told %v", r.events())
		}
		found.ModTime = found.ModTime.UTC()
		want := inbox.Item{
			ID: "task-a", Tier: task.Team, ChannelID: "..", ChannelKey: task.ChannelKey(".."), Priority: task.Low,
			Verdict: task.Unsigned, ModTime: at, Size: int64(len(text)),
		}
		if found.Item != want {
			t.Errorf("item = %+v\nwant   %+v", found.Item, want)
		}
	})
}

// A file may be seen at any point of being written. Nothing is told of it
// before it has been the same for Settle.
func TestSource_UnfinishedFiles(t *testing.T) {
	key, _ := task.ParseKey([]byte(strings.Repeat("ab", 32)))
	mid := "id: task-a\ntask_layout: mid\ntask: hello\nsource: x\naccess_tier: owner\n"
	for name, c := range map[string]struct {
		text   string
		policy task.Policy
	}{
		"plain":  {ask, task.PolicyAccept},
		"mid":    {mid, task.PolicyAccept},
		"signed": {string(task.Stamp([]byte(mid), key)), task.PolicyStrict},
		"umlaut": {"id: task-a\naccess_tier: owner\ntask: ü\n", task.PolicyAccept},
	} {
		t.Run(name, func(t *testing.T) {
			change := func(o *inbox.Options) { o.Policy = c.policy }
			bubble(t, change, func(r *rig, step func(time.Duration)) {
				if err := os.WriteFile(r.key, []byte(strings.Repeat("ab", 32)), 0o600); err != nil {
					t.Fatal(err)
				}
				whole := strings.Index(c.text, "task: ") + len("task: h")
				if c.policy == task.PolicyStrict {
					whole = len(c.text)
				} else if strings.Contains(c.text, "mid") {
					whole = strings.Index(c.text, "access_tier: owner") + len("access_tier:")
				}
				for size := range whole {
					if strings.HasSuffix(c.text[:size], "access_tier: owner") || strings.HasSuffix(c.text[:size], "ask: ") {
						continue
					}
					r.put("task-a.txt", c.text[:size])
					step(second) // less than Settle
					if told := r.take(); len(told) > 0 {
						t.Fatalf("after %q: told %q", c.text[:size], told)
					}
				}
				r.put("task-a.txt", c.text)
				step(5 * second)
				r.expect("whole", "found task-a owner")
			})
		})
	}
}

func TestSource_UnfinishedFilesBecomeFinal(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"empty":          {"task-a.txt", "", "rejected task-a no_task"},
		"no task":        {"task-a.txt", "hello\n", "rejected task-a no_task"},
		"empty ask":      {"task-a.txt", "access_tier: owner\ntask: \n", "rejected task-a empty_task"},
		"not UTF-8":      {"task-a.txt", "task: \xff\n", "rejected task-a file_not_utf8"},
		"other id":       {"task-a.txt", "id: task-b\ntask: x\n", "rejected task-a id_mismatch"},
		"mid, no tier":   {"task-a.txt", "task_layout: mid\ntask: x\n", "found task-a guest"},
		"other text":     {"README.txt", "hello\n", "rejected README no_task"},
		"other with ask": {"README.txt", "task:\n", "rejected README empty_task"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, nil, func(r *rig, step func(time.Duration)) {
				r.put(c.file, c.text)
				step(inbox.DefaultSettle - time.Millisecond)
				r.expect("before it has settled")
				step(2 * time.Millisecond)
				r.expect("settled", c.want)
				if rejected, ok := r.last().(inbox.Rejected); ok {
					if want := c.file != "README.txt" || c.text == "task:\n"; rejected.IDSound != want {
						t.Errorf("id sound = %v, want %v", rejected.IDSound, want)
					}
				}
				step(time.Hour)
				r.expect("an hour later")
				r.put(c.file, ask)
				step(10 * second)
				r.expect("healed", "found "+strings.TrimSuffix(c.file, ".txt")+" owner")
			})
		})
	}
}

func TestSource_Changes(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		r.put("task-a.txt", ask)
		step(10 * second)
		r.expect("new", "found task-a owner")
		r.put("task-a.txt", ask)
		r.age("task-a.txt", time.Unix(1e9, 0))
		if err := os.Chmod(r.path("task-a.txt"), 0o600); err != nil {
			t.Fatal(err)
		}
		step(10 * second)
		r.expect("same bytes")
		r.put("task-a.txt", strings.Replace(ask, "hello", "hallo", 1))
		r.age("task-a.txt", time.Unix(1e9, 0))
		step(10 * second)
		r.expect("same size and time, other bytes", "found task-a owner")
		r.remove("task-a.txt")
		step(10 * second)
		r.expect("removed", "gone task-a")
		r.put("task-a.txt", ask)
		step(10 * second)
		r.expect("back", "found task-a owner")
		r.remove("task-a.txt")
		if err := os.Mkdir(r.path("task-a.txt"), 0o755); err != nil {
			t.Fatal(err)
		}
		step(10 * second)
		r.expect("became a directory", "gone task-a")
		r.put("task-b.txt", "")
		step(time.Second)
		r.remove("task-b.txt")
		step(10 * second)
		r.expect("never finished, gone")
	})
}

func TestSource_TooLarge(t *testing.T) {
	bubble(t, func(o *inbox.Options) { o.MaxBytes = 100 }, func(r *rig, step func(time.Duration)) {
		r.TestOnlyOpen(func(path string) (*os.File, error) {
			f, err := os.Open(path)
			if err == nil {
				if err := os.Truncate(path, 200); err != nil { // it grows while it is read
					t.Error(err)
				}
			}
			return f, err
		})
		r.put("task-a.txt", ask)
		step(time.Millisecond)
		r.expect("grew", "rejected task-a file_too_large")
		rejected := r.events()[0].(inbox.Rejected)
		if !rejected.IDSound || rejected.Detail != "200 bytes, at most 100 are read" || rejected.Size != 200 {
			t.Errorf("rejected = %+v", rejected)
		}
		if _, err := r.Read("task-a"); !isRejection(err, reason.FileTooLarge) {
			t.Errorf("read: %v", err)
		}
	})
}

func TestSource_Unreadable(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		heal := r.failOpens(syscall.EACCES)
		r.put("task-a.txt", ask)
		step(time.Second)
		r.expect("at first")
		step(5 * second)
		r.expect("settled", "rejected task-a file_unreadable")
		for _, event := range r.events() {
			// The room need not learn the path.
			if e, ok := event.(inbox.Rejected); ok && (e.Detail != "open: permission denied" || !e.IDSound) {
				t.Errorf("rejected = %+v", e)
			}
		}
		if _, err := r.Read("task-a"); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("read: %v", err)
		}
		step(time.Hour)
		r.expect("still")
		heal()
		step(5 * second)
		r.expect("healed without a change of the file", "found task-a owner")
	})
}

// Running out of file descriptors is our trouble and no property of a file.
func TestSource_OutOfDescriptors(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		heal := r.failOpens(syscall.EMFILE)
		r.put("task-a.txt", ask)
		step(time.Minute)
		r.mu.Lock()
		if len(r.told) != 0 {
			t.Errorf("told %q", r.told)
		}
		r.mu.Unlock()
		if n := r.log.count("too many open files"); n != 2 { // one for the watch, one for the scan
			t.Errorf("logged %d times: %s", n, r.log)
		}
		heal()
		step(2 * second)
		r.expect("healed", "found task-a owner")
	})
}

func TestSource_MissingDir(t *testing.T) {
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		r.put("task-a.txt", ask)
		step(10 * second)
		r.expect("there", "found task-a owner")
		aside := r.dir + "-aside"
		if err := os.Rename(r.dir, aside); err != nil {
			t.Fatal(err)
		}
		step(time.Minute)
		r.mu.Lock()
		if len(r.told) > 3 || strings.Contains(strings.Join(r.told, " "), "gone") {
			t.Errorf("told %q while the directory was away", r.told)
		}
		r.mu.Unlock()
		r.take()
		if n := r.log.count("waiting for it"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log)
		}
		if err := os.Rename(aside, r.dir); err != nil {
			t.Fatal(err)
		}
		step(10 * second)
		r.expect("back")
		if n := r.log.count("can be read again"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log)
		}
		if err := os.RemoveAll(r.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(r.dir, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		step(10 * second)
		r.expect("a file in its place")
		if err := os.Remove(r.dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(r.dir, 0o755); err != nil {
			t.Fatal(err)
		}
		step(10 * second)
		r.expect("new and empty", "gone task-a")
	})
}

func TestSource_KeyFile(t *testing.T) {
	mid := "id: task-a\ntask_layout: mid\ntask: x\naccess_tier: owner\n"
	key, err := task.ParseKey([]byte(strings.Repeat("ab", 32)))
	if err != nil {
		t.Fatal(err)
	}
	bubble(t, nil, func(r *rig, step func(time.Duration)) {
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(r.key, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r.put("task-a.txt", mid)
		r.put("task-b.txt", string(task.Stamp([]byte(strings.ReplaceAll(mid, "task-a", "task-b")), key)))
		r.age("task-a.txt", time.Unix(1e9, 0))
		if r.Policy() != task.PolicyAccept {
			t.Errorf("policy = %s before there is a key", r.Policy())
		}
		step(5 * second)
		r.expect("no key", "found task-a owner", "found task-b owner")
		write("not a key")
		step(5 * second)
		r.expect("broken key: nothing is proven", "found task-a guest", "found task-b guest")
		if n := r.log.count("stay unverifiable"); n != 1 || r.Policy() != task.PolicyLayout {
			t.Errorf("policy %s, logged %d times:\n%s", r.Policy(), n, r.log)
		}
		write(strings.Repeat("ab", 32) + "\n")
		step(5 * second)
		r.expect("key", "found task-b owner")
		write(strings.Repeat("cd", 32))
		step(5 * second)
		r.expect("another key", "rejected task-b envelope_invalid")
		if err := os.Remove(r.key); err != nil {
			t.Fatal(err)
		}
		step(5 * second)
		r.expect("no key again", "found task-a owner", "found task-b owner")
	})
}
