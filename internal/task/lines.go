package task

import "strings"

// cutLine takes one line off s. Lines end at LF only: CR, NEL, U+2028 and
// their like are characters of a value, or a sender could write one into a
// name and start a header with it.
func cutLine(s string) (line, rest string) {
	line, rest, _ = strings.Cut(s, "\n")
	return line, rest
}

// header splits `key: value`. One blank or tab after the colon belongs to
// the grammar, the rest of the value is kept as it is.
func header(line string) (key, value string, ok bool) {
	key, value, ok = strings.Cut(line, ":")
	if !ok || !isKey(key) {
		return "", "", false
	}
	if value != "" && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	return key, value, true
}

func isKey(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// parts is a file cut at the first line that begins `task:`.
type parts struct {
	head  string // the lines above it
	ask   string // what stands behind `task:` on that line, leading blanks gone
	below string // the lines under it
}

func split(text string) (parts, bool) {
	const mark = "task:"
	at := 0
	if !strings.HasPrefix(text, mark) {
		i := strings.Index(text, "\n"+mark)
		if i < 0 {
			return parts{}, false
		}
		at = i + 1
	}
	line, below := cutLine(text[at:])
	return parts{head: text[:at], ask: strings.TrimLeft(line[len(mark):], " \t"), below: below}, true
}

// whole is the request with nothing dropped: the ask and every line below it.
func (p parts) whole() string {
	return strings.TrimFunc(p.ask+"\n"+p.below, IsSpace)
}

// each calls fn for every believed header of s, in order.
func each(s string, fn func(key, value string)) {
	for line := range strings.SplitSeq(s, "\n") {
		if key, value, ok := header(line); ok && vocabulary[key] {
			fn(key, value)
		}
	}
}

// clean is a header's value as it is used, not as it is kept: trimmed of the
// blanks and the CR that a folded or CRLF file leaves at its ends.
func clean(value string) string { return strings.TrimFunc(value, IsSpace) }
