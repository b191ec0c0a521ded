package outbox

import (
	"strings"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

const bom = '\ufeff'

// Render is the text of a result: valid UTF-8 without a BOM (it would hide a
// leading marker from some readers), for everybody but owners with the
// poster's control markers made harmless, and cut to max bytes, note
// included. fullCopy names the file in the state dir that has the whole text.
func Render(tier task.Tier, text string, max int, fullCopy string) string {
	body, _ := render(tier, text, max, fullCopy)
	return body
}

func render(tier task.Tier, text string, max int, fullCopy string) (body string, cut bool) {
	text = dropBOM(strings.ToValidUTF8(text, string(utf8.RuneError)))
	if tier != task.Owner {
		text = neutralise(text)
	}
	if max <= 0 || len(text) <= max {
		return text, false
	}
	if text = strings.TrimFunc(text, task.IsSpace); len(text) <= max {
		return text, false
	}
	note := "\n\n(This reply is too long to post and is cut here."
	if fullCopy != "" {
		note += " The full text is kept on the host as " + fullCopy + " in the service's state directory."
	}
	note += ")"
	room := max - len(note)
	if room <= 0 {
		return head(text, max), true
	}
	kept := cutText(text, room)
	if fence := openFence(kept); fence != "" {
		// The note must not end up inside a code block.
		if tail := "\n" + fence; len(kept)+len(tail) <= room {
			kept += tail
		} else if len(tail) < room {
			kept = cutText(text, room-len(tail))
			if openFence(kept) == fence {
				kept += tail
			}
		}
	}
	return kept + note, true
}

// dropBOM removes byte order marks from the white space that text begins with.
func dropBOM(text string) string {
	rest := strings.TrimLeftFunc(text, func(r rune) bool { return r == bom || task.IsSpace(r) })
	lead := text[:len(text)-len(rest)]
	if !strings.ContainsRune(lead, bom) {
		return text
	}
	return strings.ReplaceAll(lead, string(bom), "") + rest
}

// cutText returns at most size bytes of text: up to a line end, or where
// that would lose more than half of them (one long line), up to the last
// whole character.
func cutText(text string, size int) string {
	part := head(text, size)
	if size < len(text) && text[size] != '\n' {
		if i := strings.LastIndexByte(part, '\n'); i >= size/2 {
			part = part[:i]
		}
	}
	return strings.TrimRightFunc(part, task.IsSpace)
}

// head is the longest prefix of whole characters within size bytes.
func head(text string, size int) string {
	if size >= len(text) {
		return text
	}
	for size > 0 && !utf8.RuneStart(text[size]) {
		size--
	}
	return text[:size]
}

// openFence returns the marker of a code fence that text leaves open.
func openFence(text string) string {
	open := ""
	for line := range strings.SplitSeq(text, "\n") {
		trimmed := strings.TrimLeft(line, " ")
		if len(line)-len(trimmed) > 3 || trimmed == "" || (trimmed[0] != '`' && trimmed[0] != '~') {
			continue
		}
		run := trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, trimmed[:1]))]
		switch {
		case len(run) < 3:
		case open == "":
			open = run
		case run[0] == open[0] && len(run) >= len(open):
			open = ""
		}
	}
	return open
}
