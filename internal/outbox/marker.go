package outbox

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// markers are the words that make a bracket an order to the poster: be
// silent, go to another room, upload a file. Owners may give such orders.
// In anybody else's reply the poster's guard withholds the whole answer as
// soon as one stands there, anywhere and in any case, quoted in code as
// well (measured upstream: 81 real replies lost). So all of them are broken
// up, and nothing less.
func markers() []string {
	return []string{"no-send", "replied", "deduped", "channel", "dm-only", "file", "send", "attach"}
}

// neutralise puts a blank behind the bracket of every marker. The words stay
// where they are and can be read; `[ file: x]` is no marker to any reader,
// and code such as `row[file]` stays the same code.
func neutralise(text string) string {
	words := markers()
	var out strings.Builder
	for {
		i := strings.IndexByte(text, '[')
		if i < 0 {
			break
		}
		out.WriteString(text[:i+1])
		text = text[i+1:]
		for _, word := range words {
			if beginsMarker(text, word) {
				out.WriteByte(' ')
				break
			}
		}
	}
	if out.Len() == 0 {
		return text
	}
	out.WriteString(text)
	return out.String()
}

// beginsMarker reports whether s, which follows a bracket, is word, optional
// white space, and a colon or the closing bracket. Letters are compared as
// the poster's readers do under "ignore case": the long s and the dotless
// and dotted i are s and i.
func beginsMarker(s, word string) bool {
	for _, want := range word {
		r, size := utf8.DecodeRuneInString(s)
		if unicode.ToLower(unicode.ToUpper(r)) != want {
			return false
		}
		s = s[size:]
	}
	s = strings.TrimLeftFunc(s, task.IsSpace)
	return s != "" && (s[0] == ':' || s[0] == ']')
}
