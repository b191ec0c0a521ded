package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rate is at most Count turns in each Per, written "30/h". The zero Rate is no
// limit.
type Rate struct {
	Count int
	Per   time.Duration
}

// UnmarshalText reads a whole number, a slash and one of s, m, h, d.
func (r *Rate) UnmarshalText(text []byte) error {
	count, per, ok := strings.Cut(string(text), "/")
	n, err := strconv.Atoi(strings.TrimSpace(count))
	if !ok || err != nil || n < 1 {
		return fmt.Errorf("%q is no rate; write a number of turns and a time, such as \"6/m\", \"30/h\" or \"100/d\"", text)
	}
	switch strings.TrimSpace(per) {
	case "s":
		r.Per = time.Second
	case "m":
		r.Per = time.Minute
	case "h":
		r.Per = time.Hour
	case "d":
		r.Per = 24 * time.Hour
	default:
		return fmt.Errorf("%q is no rate; the time is one of s, m, h, d", text)
	}
	r.Count = n
	return nil
}

// MarshalText writes r as it is read; the zero Rate is "".
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// String writes r as it is read; the zero Rate is "".
func (r Rate) String() string {
	switch r.Per {
	case time.Second:
		return strconv.Itoa(r.Count) + "/s"
	case time.Minute:
		return strconv.Itoa(r.Count) + "/m"
	case time.Hour:
		return strconv.Itoa(r.Count) + "/h"
	case 24 * time.Hour:
		return strconv.Itoa(r.Count) + "/d"
	}
	return ""
}
