package proc_test

import (
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func TestRing_Lines(t *testing.T) {
	for _, c := range []struct {
		name    string
		n, most int
		text    string
		want    []string
	}{
		{"Empty", 3, 10, "", []string{}},
		{"Fewer", 3, 10, "a\nb\n", []string{"a", "b"}},
		{"OldestGo", 3, 10, "a\nb\nc\nd\ne\n", []string{"c", "d", "e"}},
		{"NoLastNewline", 3, 10, "a\nb", []string{"a", "b"}},
		{"EmptyLines", 3, 10, "a\n\n\r\n\nb\n", []string{"a", "b"}},
		{"CarriageReturn", 3, 10, "a\r\nb\rc\r\n", []string{"a", "b\uFFFDc"}},
		{"Longest", 3, 4, "abcd\nabcde\nx\n", []string{"abcd", "abcd…", "x"}},
		{"InsideARune", 3, 4, "abcäö\n", []string{"abc…"}},
		{"RuneFits", 3, 5, "abcäö\n", []string{"abcä…"}},
		{"NoUTF8", 3, 20, "a\xff\xfeb\n", []string{"a\uFFFDb"}},
		{"NoUTF8Cut", 3, 3, "\x80\x80\x80\x80\x80\n", []string{"\uFFFD…"}},
		{"Controls", 3, 40, "\x1b[31mred\x00\tb\u202e\n", []string{"\uFFFD[31mred\uFFFD\tb\uFFFD"}},
		{"NoSizes", 0, 0, "ab\ncd\n", []string{"c…"}},
		{"LongerThanABuffer", 2, 10, strings.Repeat("x", 100_000) + "\nshort\n", []string{"xxxxxxxxxx…", "short"}},
		{"ShorterOverLonger", 1, 10, "0123456789ab\nz\n", []string{"z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := proc.NewRing(c.n, c.most)
			r.Drain(strings.NewReader(c.text))
			got := r.Lines()
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
			for _, line := range got {
				if !utf8.ValidString(line) {
					t.Errorf("%q is not UTF-8", line)
				}
			}
		})
	}
}

// flood writes text again and again, and then "last".
type flood struct {
	text string
	left int
}

func (f *flood) Read(p []byte) (int, error) {
	if f.left <= 0 {
		return 0, io.EOF
	}
	n := copy(p, f.text)
	if f.left -= n; f.left <= 0 {
		n = copy(p, "\nlast\n")
	}
	return n, nil
}

// TestRing_Flood: a gigabyte of stderr costs no memory, in lines or without any.
func TestRing_Flood(t *testing.T) {
	for _, c := range []struct {
		name, text string
		size       int
	}{
		{"OneLine", strings.Repeat("\xfe", 16<<10), 1 << 30},
		{"Lines", strings.Repeat(strings.Repeat("y", 99)+"\n", 160), 1 << 27}, // the race detector is slow
	} {
		t.Run(c.name, func(t *testing.T) {
			r := proc.NewRing(50, 2000)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r.Drain(&flood{text: c.text, left: c.size})
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
				t.Errorf("%d bytes were allocated", n)
			}
			lines := r.Lines()
			if lines[len(lines)-1] != "last" {
				t.Errorf("the last line is %q", lines[len(lines)-1])
			}
		})
	}
}

// TestRing_OfAProcess drains what a program writes to stderr until its end.
func TestRing_OfAProcess(t *testing.T) {
	p := mustStart(t, newSpawner(t), shell("i=0; while [ $i -lt 3000 ]; do echo $i something to fill the pipe with >&2; i=$((i+1)); done; exit 6"))
	r := proc.NewRing(2, 100)
	r.Drain(p.Stderr)
	if want := []string{"2998 something to fill the pipe with", "2999 something to fill the pipe with"}; !slices.Equal(r.Lines(), want) {
		t.Errorf("%q, want %q", r.Lines(), want)
	}
	if got, want := mustEnd(t, p), (proc.Exit{Code: 6}); got != want {
		t.Errorf("exit %+v, want %+v", got, want)
	}
}
