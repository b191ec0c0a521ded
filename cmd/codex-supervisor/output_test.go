package main

import (
	"strings"
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0ms", 12 * time.Millisecond: "12ms", 59 * time.Second: "59s", time.Minute: "1m", 61 * time.Second: "1m1s",
		6 * time.Hour: "6h", 47*time.Hour + 59*time.Minute: "47h59m", 48 * time.Hour: "2d", 100 * 24 * time.Hour: "100d",
	} {
		if got := short(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Unix(1e9, 0)
	for d, want := range map[time.Duration]string{
		0: "1s", 59 * time.Second: "59s", 59*time.Minute + 59*time.Second: "59m", 47*time.Hour + time.Minute: "47h", 72 * time.Hour: "3d", -time.Hour: "1s",
	} {
		if got := ago(now.Add(-d), now); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
	if ago(time.Time{}, now) != "-" || used(time.Time{}, now) != "never" || used(now.Add(-time.Minute), now) != "1m ago" {
		t.Error("never, or a minute ago")
	}
}

func TestShown(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain", "a\x1b[31mred\n": "a?[31mred?", "rtl\u202e": "rtl?", "eleven char": "eleven char", "twelve chars": "twelve cha…", "ünïcödé äöü": "ünïcödé äöü",
	} {
		if got := shown(in, 11); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	var b strings.Builder
	wrap(&b, 20, "  name  ", "one two three  four averyveryverylongword x")
	want := "  name  one two\n        three four\n        averyveryverylongword\n        x\n"
	if b.String() != want {
		t.Errorf("\n%s", b.String())
	}
}

func TestDistance(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want int
	}{{"work", "work", 0}, {"wrok", "work", 2}, {"", "abc", 3}, {"stat", "state", 1}, {"kitten", "sitting", 3}} {
		if got := distance(tc.a, tc.b); got != tc.want {
			t.Errorf("%s %s: %d", tc.a, tc.b, got)
		}
	}
}
