package supervisor

import (
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

func TestFailure_Text(t *testing.T) {
	reset := time.Date(2026, 3, 1, 17, 30, 0, 0, time.UTC)
	for _, c := range []struct {
		name string
		f    failure
		want string
	}{
		{"Timeout", failure{why: reason.TurnTimeout, after: 10 * time.Minute}, "This took longer than the 10 minutes allowed, so it was stopped."},
		{"Partial", failure{why: reason.Cancelled, partial: "half\n"}, "This was cancelled before it was finished.\n\nUp to then it had written:\n\nhalf"},
		{"Ran", failure{why: reason.CutTwice, ran: true}, "Codex was cut off twice while working on this, so it was given up. Parts of it may have been done already."},
		{"Limit", failure{why: reason.UsageLimit, until: reset}, "The usage limit of the Codex account is reached. It resets at 17:30 UTC on 1 March; please ask again after that."},
		{"LimitUnknown", failure{why: reason.UsageLimit}, "The usage limit of the Codex account is reached. Please ask again later."},
		{"Detail", failure{why: reason.ModelError, detail: "status 500:\n  try again."}, "The model could not answer (status 500: try again). Please try again later."},
		{"Empty", failure{why: reason.EmptyReply}, "[no reply] Codex finished without writing an answer, twice."},
		{"Unknown", failure{why: "something_new"}, "This could not be answered (something_new)."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.f.text(); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// Every word that can end a task has a sentence of its own: a room must never
// be shown the bare word.
func TestFailure_EveryReasonHasASentence(t *testing.T) {
	for _, why := range reason.Tasks() {
		switch why {
		case reason.Answered, reason.AlreadyAnswered, reason.BacklogSkipped:
			continue // nothing is said about these
		}
		text := failure{why: why}.text()
		if strings.Contains(text, string(why)) && strings.Contains(why.String(), "_") {
			t.Errorf("%s is shown as a bare word: %q", why, text)
		}
		if strings.ContainsAny(text, "{}\n") {
			t.Errorf("%s: not one plain sentence: %q", why, text)
		}
	}
}

func TestPlainDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		6 * time.Hour:                    "6 hours",
		time.Hour + 30*time.Minute:       "1 hour 30 minutes",
		10 * time.Minute:                 "10 minutes",
		61 * time.Second:                 "1 minute 1 second",
		2 * time.Second:                  "2 seconds",
		250 * time.Millisecond:           "250ms",
		25*time.Hour + time.Minute + 1e9: "25 hours 1 minute",
	} {
		if got := plainDuration(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine("a\n b\tc", 10); got != "a b c" {
		t.Errorf("got %q", got)
	}
	if got := oneLine(strings.Repeat("é", 20), 5); got != "éééé…" {
		t.Errorf("got %q", got)
	}
}
