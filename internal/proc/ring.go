package proc

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Ring keeps the last lines of a stream. Its memory is fixed: the lines are
// written over one another in place. It is safe for use by several goroutines.
type Ring struct {
	maxLine int

	mu    sync.Mutex
	lines []ringLine // at most cap(lines); next is where the oldest stands
	next  int
}

type ringLine struct {
	text []byte
	cut  bool
}

// NewRing keeps the last n lines, each of at most maxLine bytes.
func NewRing(n, maxLine int) *Ring {
	return &Ring{maxLine: max(maxLine, 1), lines: make([]ringLine, 0, max(n, 1))}
}

// Drain reads to the end, whatever is written: a stream nobody reads blocks its
// writer (64 KB of unread stderr once looked like a hung app-server). Empty
// lines are not kept.
func (r *Ring) Drain(from io.Reader) {
	in := bufio.NewReaderSize(from, 16<<10)
	var line []byte
	cut := false
	for {
		part, err := in.ReadSlice('\n')
		if err == nil {
			part = part[:len(part)-1]
		}
		room := min(len(part), r.maxLine-len(line))
		line, cut = append(line, part[:room]...), cut || room < len(part)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if n := len(line); n > 0 && !cut && line[n-1] == '\r' {
			line = line[:n-1]
		}
		if len(line) > 0 {
			r.add(line, cut)
		}
		line, cut = line[:0], false
		if err != nil {
			return
		}
	}
}

func (r *Ring) add(text []byte, cut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < cap(r.lines) {
		r.lines = append(r.lines, ringLine{})
		r.next = len(r.lines) - 1
	}
	at := &r.lines[r.next]
	at.text, at.cut = append(at.text[:0], text...), cut
	r.next = (r.next + 1) % cap(r.lines)
}

// Lines returns the kept lines, oldest first, as text that is safe to log and to
// show: valid UTF-8 without control characters. A line that was cut ends in "…".
func (r *Ring) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines := make([]string, 0, len(r.lines))
	for i := range r.lines {
		lines = append(lines, r.lines[(r.next+i)%len(r.lines)].String())
	}
	return lines
}

// String implements fmt.Stringer.
func (l ringLine) String() string {
	text := l.text
	if l.cut {
		// Not half a character at the end.
		for i := 1; i <= min(utf8.UTFMax, len(text)); i++ {
			if b := text[len(text)-i]; utf8.RuneStart(b) {
				if !utf8.FullRune(text[len(text)-i:]) {
					text = text[:len(text)-i]
				}
				break
			}
		}
	}
	safe := strings.Map(func(c rune) rune {
		if c != '\t' && !unicode.IsPrint(c) {
			return utf8.RuneError // a terminal would obey it
		}
		return c
	}, strings.ToValidUTF8(string(text), "\uFFFD"))
	if l.cut {
		safe += "…"
	}
	return safe
}
