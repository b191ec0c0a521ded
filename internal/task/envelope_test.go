package task_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

type vector struct {
	Name     string
	KeyText  *string `json:"key_file_text"`
	KeyHex   *string `json:"key_hex"`
	FileB64  string  `json:"file_b64"`
	Expected task.Verdict
	Folded   task.Verdict `json:"verdict_after_universal_newlines"`
}

func mustVectors(tb testing.TB) []vector {
	tb.Helper()
	text, err := os.ReadFile("testdata/envelope.json")
	if err != nil {
		tb.Fatal(err)
	}
	var file struct {
		StampPrefix string `json:"stamp_prefix"`
		Cases       []vector
	}
	if err := json.Unmarshal(text, &file); err != nil {
		tb.Fatal(err)
	}
	if len(file.Cases) < 54 {
		tb.Fatalf("%d vectors, want all 54", len(file.Cases))
	}
	return file.Cases
}

func (v vector) key() task.Key {
	if v.KeyText == nil {
		return nil
	}
	key, err := task.ParseKey([]byte(*v.KeyText))
	if err != nil {
		return nil
	}
	return key
}

func TestVerify_Vectors(t *testing.T) {
	for _, v := range mustVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			key := v.key()
			if (key == nil) != (v.KeyHex == nil) {
				t.Errorf("key usable = %v, want %v", key != nil, v.KeyHex != nil)
			}
			raw, err := base64.StdEncoding.DecodeString(v.FileB64)
			if err != nil {
				t.Fatal(err)
			}
			if got := task.Verify(raw, key); got != v.Expected {
				t.Errorf("verdict = %s, want %s", got, v.Expected)
			}
			folded := bytes.ReplaceAll(bytes.ReplaceAll(raw, []byte("\r\n"), []byte("\n")), []byte("\r"), []byte("\n"))
			if got := task.Verify(folded, key); got != v.Folded {
				t.Errorf("verdict of folded bytes = %s, want %s", got, v.Folded)
			}
			// Restamping a verified file must reproduce its bytes, but for
			// blanks around the MAC.
			if v.Expected == task.Verified {
				again := task.Stamp(raw, key)
				if task.Verify(again, key) != task.Verified {
					t.Error("restamped file does not verify")
				}
				if v.Name == "verified_task_last_slot1" && !bytes.Equal(again, raw) {
					t.Errorf("restamped = %q, want the file itself", again)
				}
			}
		})
	}
}

func testKey(tb testing.TB) task.Key {
	tb.Helper()
	key, err := task.ParseKey([]byte(strings.Repeat("0f", 32)))
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

func TestStamp_Slot(t *testing.T) {
	key := testKey(t)
	const mac = "envelope_hmac: v1:"
	for name, c := range map[string]struct {
		in   string
		line int
	}{
		"after id":             {"id: task-a\ntask: x\n", 1},
		"without id":           {"timestamp: now\ntask: x\n", 0},
		"empty":                {"", 0},
		"id only":              {"id: task-a", 1},
		"old stamp above id":   {mac + "00\nid: task-a\ntask: x\n", 1},
		"old stamp below id":   {"id: task-a\n" + mac + "00\ntask: x\n", 1},
		"stamp in the body":    {"task: x\n" + mac + "00\n", 0},
		"second stamp is text": {"id: task-a\n" + mac + "00\n" + mac + "11\n", 1},
	} {
		t.Run(name, func(t *testing.T) {
			out := task.Stamp([]byte(c.in), key)
			if got := task.Verify(out, key); got != task.Verified {
				t.Fatalf("verdict = %s of %q", got, out)
			}
			lines := strings.Split(string(out), "\n")
			if len(lines) <= c.line || !strings.HasPrefix(lines[c.line], mac) {
				t.Errorf("line %d of %q is no stamp", c.line, out)
			}
			if !bytes.Equal(task.Stamp(out, key), out) {
				t.Error("stamping twice changes the file")
			}
		})
	}
	if out := task.Stamp([]byte("id: a\n"), nil); string(out) != "id: a\n" {
		t.Errorf("stamped without a key: %q", out)
	}
}

func TestKey_IsNotPrinted(t *testing.T) {
	key := testKey(t)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", key)
	for _, s := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s", key, key, key, key), log.String()} {
		if !strings.Contains(s, "[key]") || strings.Contains(s, "15 15") || strings.Contains(s, "\x0f") {
			t.Errorf("key shows in %q", s)
		}
	}
}

// Any file can be stamped, verifies with its key and no other, and is
// noticed when a byte outside the stamp changes.
func TestStamp_Properties(t *testing.T) {
	key, other := testKey(t), task.Key(bytes.Repeat([]byte{7}, 32))
	lines := rapid.SampledFrom([]string{
		"id: task-a", "id:", "task: hi", "", "\r", "access_tier: owner", "ключ",
		"envelope_hmac: v1:" + strings.Repeat("a", 64), "envelope_hmac: v1:", " envelope_hmac: v1:x", "\xff\xfe",
	})
	rapid.Check(t, func(t *rapid.T) {
		raw := []byte(strings.Join(rapid.SliceOfN(lines, 0, 6).Draw(t, "lines"), "\n"))
		out := task.Stamp(raw, key)
		if got := task.Verify(out, key); got != task.Verified {
			t.Fatalf("own key: %s for %q", got, out)
		}
		if got := task.Verify(out, other); got != task.Invalid {
			t.Fatalf("other key: %s", got)
		}
		if got := task.Verify(out, nil); got != task.Unverifiable {
			t.Fatalf("no key: %s", got)
		}
		if !bytes.Equal(task.Stamp(out, key), out) {
			t.Fatalf("not stable: %q", out)
		}
		at := rapid.IntRange(0, len(out)-1).Draw(t, "at")
		bad := bytes.Clone(out)
		bad[at] ^= 0x40 // not 1: LF would become VT, a blank behind the MAC
		if got := task.Verify(bad, key); got == task.Verified {
			t.Fatalf("byte %d changed and still verified: %q", at, bad)
		}
	})
}

func FuzzVerify(f *testing.F) {
	for _, v := range mustVectors(f) {
		raw, _ := base64.StdEncoding.DecodeString(v.FileB64)
		f.Add(raw)
	}
	key := testKey(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		before := bytes.Clone(raw)
		with, without := task.Verify(raw, key), task.Verify(raw, nil)
		if (with == task.Unsigned) != (without == task.Unsigned) {
			t.Fatalf("stamp seen with a key %s, without %s", with, without)
		}
		if with == task.Unverifiable || without == task.Verified || without == task.Invalid {
			t.Fatalf("impossible verdicts %s, %s", with, without)
		}
		out := task.Stamp(raw, key)
		if task.Verify(out, key) != task.Verified || !bytes.Equal(task.Stamp(out, key), out) {
			t.Fatalf("stamp of %q is not stable: %q", raw, out)
		}
		if !bytes.Equal(raw, before) {
			t.Fatal("the input was written to")
		}
	})
}
