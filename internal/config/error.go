package config

import (
	"fmt"
	"strings"
)

// Error is one mistake and its place.
type Error struct {
	File    string // "" when the value came from a flag
	Line    int    // from 1; 0 when the mistake has no place, such as a missing key
	Column  int    // from 1, in bytes
	Length  int    // of what the caret underlines
	Key     string // as written, with its table: workdir[0].sandbox
	Message string
	Source  string // the line
}

// Error is "file:line:column: message", then the line with a caret below it.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", e.Line, e.Column)
		}
		b.WriteString(": ")
	}
	b.WriteString(e.Message)
	if e.Line > 0 {
		number := fmt.Sprintf("%5d", e.Line)
		// The part before the caret keeps its tabs, so that the caret stands
		// right however wide the terminal shows them.
		before := e.Source[:min(max(e.Column-1, 0), len(e.Source))]
		pad := strings.Map(func(r rune) rune {
			if r == '\t' {
				return r
			}
			return ' '
		}, before)
		fmt.Fprintf(&b, "\n%s | %s\n%s | %s%s", number, e.Source, strings.Repeat(" ", len(number)), pad,
			strings.Repeat("^", max(e.Length, 1)))
	}
	return b.String()
}

// Errors are all mistakes of one configuration, in the order of the file.
type Errors []*Error

// Error is all of them, one below the other.
func (e Errors) Error() string {
	texts := make([]string, len(e))
	for i, one := range e {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap lets errors.As find a single [Error].
func (e Errors) Unwrap() []error {
	errs := make([]error, len(e))
	for i, one := range e {
		errs[i] = one
	}
	return errs
}
