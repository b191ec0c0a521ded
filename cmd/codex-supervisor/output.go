package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// printJSON is a document for programs: one value, indented.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// table prints rows below their heads, each line after indent.
func table(w io.Writer, indent, heads string, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, indent+strings.ReplaceAll(heads, " | ", "\t"))
	for _, r := range rows {
		fmt.Fprintln(t, indent+strings.Join(r, "\t"))
	}
	_ = t.Flush()
}

// short is a length of time that is read at a glance: the two largest units.
func short(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < time.Minute:
		return strconv.Itoa(int(d/time.Second)) + "s"
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < 48*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "m")
	}
	return strconv.Itoa(int(d/(24*time.Hour))) + "d"
}

func two(d, large time.Duration, l string, small time.Duration, s string) string {
	text := strconv.Itoa(int(d/large)) + l
	if rest := d % large / small; rest > 0 {
		text += strconv.Itoa(int(rest)) + s
	}
	return text
}

// ago is when something was, for a table; "-" when never.
func ago(at, now time.Time) string {
	switch d := now.Sub(at); {
	case at.IsZero():
		return "-"
	case d < time.Minute:
		return short(max(d.Round(time.Second), time.Second))
	case d < time.Hour:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	default:
		return short(d)
	}
}

// used is ago with the word.
func used(at, now time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return ago(at, now) + " ago"
}

// shown makes a text that others chose safe to print in a table: one line, no
// control characters, at most n columns wide if every rune is one.
func shown(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029' {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// dash stands where there is nothing.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// wrap prints head and then text in lines of at most width columns; what does
// not fit goes on below the text's first word.
func wrap(w io.Writer, width int, head, text string) {
	indent := strings.Repeat(" ", len([]rune(head)))
	line, used := head, len(indent)
	empty := true
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		if !empty && used+1+n > width {
			fmt.Fprintln(w, line)
			line, used, empty = indent, len(indent), true
		}
		if !empty {
			line, used = line+" ", used+1
		}
		line, used, empty = line+word, used+n, false
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

// fields prints names and values, one a line.
func fields(w io.Writer, rows [][2]string) {
	width := 0
	for _, r := range rows {
		width = max(width, len(r[0]))
	}
	for _, r := range rows {
		fmt.Fprintf(w, "%-*s  %s\n", width, r[0], r[1])
	}
}
