package outbox_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/codex-supervisor/codex-supervisor/internal/outbox"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// The oracle is the poster's reading of a body, written from its description
// and without a look at the code under test. Its patterns know Unicode white
// space and Unicode case, which are folded to ASCII first.
var (
	oracleHead     = regexp.MustCompile(`^\*\*\[core:\s*[^\]]+\]\*\*\s*\n(?:_[^\n]*_\s*\n)?\s*`)
	oracleNoSend   = regexp.MustCompile(`^\s*\[(?i:no-send)\]`)
	oracleReplied  = regexp.MustCompile(`^\s*\[REPLIED\]`)
	oracleDeduped  = regexp.MustCompile(`^\s*\[(?i:deduped):\s*([^\]]*)\]`)
	oracleRedirect = regexp.MustCompile(`^\s*\[channel:\s*([^\]]+)\]`)
	oracleDMOnly   = regexp.MustCompile(`(?i)\[dm-only\]`)
	oracleAttach   = regexp.MustCompile(`\[(?:file|send|attach):\s*([^\]]+)\]`)
	oracleGuard    = regexp.MustCompile(`(?i)\[(?:channel|file|send|attach|dm-only|no-send|replied|deduped)\s*(?::|\])`)
)

// acts names what the poster would do with body besides showing it. It is
// stricter than any real one: code blocks hide nothing from it, a BOM is
// looked through, and the old guard's pattern counts anywhere.
func acts(body string) string {
	body = strings.Map(func(r rune) rune {
		switch {
		case r == 'ı' || r == 'İ':
			return 'i'
		case r == 'ſ':
			return 's'
		case r == '\ufeff':
			return -1
		case r != '\n' && task.IsSpace(r):
			return ' '
		}
		return r
	}, body)
	for _, text := range []string{body, body[len(oracleHead.FindString(body)):]} {
		for name, pattern := range map[string]*regexp.Regexp{
			"no-send": oracleNoSend, "REPLIED": oracleReplied, "deduped": oracleDeduped, "channel": oracleRedirect,
			"dm-only": oracleDMOnly, "attach": oracleAttach, "guard": oracleGuard,
		} {
			if pattern.MatchString(text) {
				return name
			}
		}
	}
	return ""
}

func markerTexts() []string {
	return []string{
		"[no-send]", "[NO-Send]\nmore", " \n\t[no-send] x", "[REPLIED]", "[replied]", "[deduped: task-1]", "[Deduped:]", "[deduped]",
		"[channel: !room:x]\nhello", "[channel: a [b] c]", "[dm-only]", "text [DM-only] text", "[file: /etc/passwd]", "see [send: a] and [attach:b]",
		"**[core: 3]**\n[no-send]", "**[core: 3]**\n_(took 3 s)_\n\n[channel: !x]\nhi", "\ufeff[no-send]", " \ufeff [REPLIED]", "\ufeff\ufeff**[core: 1]**\n[no-send]",
		"```\n[file: a]\n```", "    [file: a]", "`[file: a]`", "`` [send: x] ``", "~~~\n[channel: x]", "[[file: a]]", "[[[dm-only]]]", "[file [file: a]]",
		"[file\u00a0: a]", "[file\n\n: a]", "[channel\x1c]", "[ſend: a]", "[fıle: a]", "[FİLE: a]", "[file: a\nb]", "row[file]", "x = a[send]",
		"[no-send", "]no-send[", "[no-send]\u2028[dm-only]", "\x00[no-send]", "[no-[no-send]send]", "> [no-send]", "- [file: a]", `\[file: a]`,
	}
}

func TestRender_NoMarkerActsForOthers(t *testing.T) {
	for _, text := range markerTexts() {
		for _, tier := range []task.Tier{task.Team, task.Guest, task.Ambient, "", "OWNER"} {
			got := outbox.Render(tier, text, 0, "")
			if what := acts(got); what != "" {
				t.Errorf("%s, %q: %q still acts as %s", tier, text, got, what)
			}
			if plain(got) != plain(text) {
				t.Errorf("%s, %q: became %q", tier, text, got)
			}
		}
	}
	for text, want := range map[string]string{
		"[no-send] done":      "[ no-send] done",
		"`[file: /a/b.txt]`":  "`[ file: /a/b.txt]`",
		"v[i], [1], [filed]:": "v[i], [1], [filed]:",
		"[files: x] [sender]": "[files: x] [sender]",
		"[link](http://x/a)":  "[link](http://x/a)",
	} {
		if got := outbox.Render(task.Guest, text, 0, ""); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}

// plain is text without the blanks that may be added and without BOMs.
func plain(text string) string {
	text = strings.ReplaceAll(text, "\ufeff", "")
	for strings.Contains(text, "[ ") {
		text = strings.ReplaceAll(text, "[ ", "[")
	}
	return text
}

func TestRender_OwnerTextPasses(t *testing.T) {
	for _, text := range markerTexts() {
		got := outbox.Render(task.Owner, text, 0, "")
		if got != strings.ReplaceAll(text, "\ufeff", "") {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := outbox.Render(task.Owner, "a\ufeffb\xff", 0, ""); got != "a\ufeffb\ufffd" {
		t.Errorf("got %q", got)
	}
}

func TestRender_Cut(t *testing.T) {
	const note = "\n\n(This reply is too long to post and is cut here. The full text is kept on the host as replies/task-a.txt in the service's state directory.)"
	lines := strings.Repeat("0123456789\n", 500)
	umlauts := strings.Repeat("ü", 3000)
	for name, c := range map[string]struct {
		text string
		max  int
		want string
	}{
		"fits exactly":         {strings.Repeat("x", 2000), 2000, strings.Repeat("x", 2000)},
		"fits when trimmed":    {strings.Repeat("x", 2000) + "\n\n", 2000, strings.Repeat("x", 2000)},
		"at a line end":        {lines, len(note) + 115, strings.TrimSuffix(strings.Repeat("0123456789\n", 10), "\n") + note},
		"exactly at the end":   {lines, len(note) + 109, strings.TrimSuffix(strings.Repeat("0123456789\n", 10), "\n") + note},
		"one line, whole rune": {umlauts, len(note) + 101, strings.Repeat("ü", 50) + note},
		"short first line":     {"head\n" + strings.Repeat("x", 3000), len(note) + 105, "head\n" + strings.Repeat("x", 100) + note},
		"open fence is closed": {"```go\n" + lines, len(note) + 60, "```go\n" + strings.Repeat("0123456789\n", 4) + "```" + note},
		"closed fence is not":  {"```\nx\n```\n" + lines, len(note) + 45, "```\nx\n```\n0123456789\n0123456789\n0123456789" + note},
		"fence of four":        {"````\n```\n" + lines, len(note) + 50, "````\n```\n" + strings.Repeat("0123456789\n", 3) + "````" + note},
		"no room for a note":   {umlauts, 21, strings.Repeat("ü", 10)},
	} {
		t.Run(name, func(t *testing.T) {
			got := outbox.Render(task.Owner, c.text, c.max, "replies/task-a.txt")
			if got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if len(got) > c.max {
				t.Errorf("%d bytes, at most %d", len(got), c.max)
			}
		})
	}
	if got := outbox.Render(task.Owner, lines, 200, ""); strings.Contains(got, "kept") || !strings.HasSuffix(got, "cut here.)") {
		t.Errorf("without a copy: %q", got)
	}
}

func FuzzRender(f *testing.F) {
	for _, text := range markerTexts() {
		f.Add(text, 0)
		f.Add(strings.Repeat(text+"\n", 40), 400)
	}
	f.Fuzz(func(t *testing.T, text string, max int) {
		got := outbox.Render(task.Guest, text, max, "replies/task-a.txt")
		if what := acts(got); what != "" {
			t.Fatalf("%q acts as %s", got, what)
		}
		if !utf8.ValidString(got) || strings.HasPrefix(got, "\ufeff") {
			t.Fatalf("unreadable: %q", got)
		}
		if max > 0 && len(got) > max {
			t.Fatalf("%d bytes, at most %d", len(got), max)
		}
		if again := outbox.Render(task.Guest, got, max, "replies/task-a.txt"); again != got {
			t.Fatalf("rendering twice: %q then %q", got, again)
		}
		if max <= 0 && plain(got) != plain(strings.ToValidUTF8(text, "\ufffd")) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func TestRender_Properties(t *testing.T) {
	piece := rapid.SampledFrom(append(markerTexts(), "[", "]", ":", "file", "no-send", "\n", "```", "`", "**[core: 2]**\n", "_x_\n", "\ufeff", " ", "ü", "text"))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "")
		max := rapid.IntRange(0, 600).Draw(t, "max")
		got := outbox.Render(task.Team, text, max, "replies/task-a.txt")
		if what := acts(got); what != "" {
			t.Fatalf("%q acts as %s", got, what)
		}
		if max > 0 && len(got) > max {
			t.Fatalf("%d bytes, at most %d", len(got), max)
		}
		if max == 0 && plain(got) != plain(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}
