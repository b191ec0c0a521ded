package proc

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"sync"
)

// Ring keeps the last lines of a stream. It is safe for use by several goroutines.
type Ring struct {
	maxLine int

	mu    sync.Mutex
	lines []string // at most cap(lines); next is where the oldest stands
	next  int
}

// NewRing keeps the last n lines, each of at most maxLine bytes.
func NewRing(n, maxLine int) *Ring {
	return &Ring{maxLine: max(maxLine, 1), lines: make([]string, 0, max(n, 1))}
}

// Drain reads to the end, whatever is written: a stream nobody reads blocks its
// writer (64 KB of unread stderr once looked like a hung app-server).
func (r *Ring) Drain(from io.Reader) {
	in := bufio.NewReaderSize(from, 16<<10)
	var line []byte
	cut := false
	for {
		part, err := in.ReadSlice('\n')
		if room := r.maxLine - len(line); room > 0 {
			line = append(line, part[:min(room, len(part))]...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			cut = true
			continue
		}
		if len(line) > 0 {
			r.add(string(line), cut || len(part) > r.maxLine)
		}
		line, cut = line[:0], false
		if err != nil {
			return
		}
	}
}

func (r *Ring) add(line string, cut bool) {
	line = strings.TrimRight(strings.ToValidUTF8(line, "\uFFFD"), "\r\n")
	if line == "" {
		return
	}
	if cut {
		line += "…"
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.lines) < cap(r.lines) {
		r.lines = append(r.lines, line)
		return
	}
	r.lines[r.next] = line
	r.next = (r.next + 1) % len(r.lines)
}

// Lines returns the kept lines, oldest first.
func (r *Ring) Lines() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append(append([]string{}, r.lines[r.next:]...), r.lines[:r.next]...)
}
