package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Origin is where a value came from.
type Origin string

// The origins, weakest first.
const (
	FromDefault Origin = "default"
	FromFile    Origin = "file"
	FromEnv     Origin = "env"
	FromFlag    Origin = "flag"
)

// Setting is one effective value.
type Setting struct {
	// Key is as in a file: listen, log.level, workdir.NAME.sandbox,
	// tiers.guest.rate.
	Key    string `json:"key"`
	Value  any    `json:"value"` // marshals as the file would write it
	Origin Origin `json:"origin"`
	// Where is file:line, the flag or the variable; "" for a default.
	Where string `json:"where,omitempty"`
}

// Settings lists every effective value and where it came from, in the order of
// the documentation.
func (c *Config) Settings() []Setting { return slices.Clone(c.settings) }

// Describe is [Config.Settings] as text: one line each, the origin as a comment.
// Its keys are full names, so it is for reading and not a file to load.
func (c *Config) Describe() string {
	var b strings.Builder
	for _, s := range c.settings {
		fmt.Fprintf(&b, "%s = %s  # %s", s.Key, s.Text(), s.Origin)
		if s.Where != "" {
			fmt.Fprintf(&b, " %s", s.Where)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Text is the value as TOML writes it.
func (s Setting) Text() string { return tomlText(s.Value) }

func tomlText(v any) string {
	switch v := v.(type) {
	case string:
		return strconv.Quote(v)
	case bool, int:
		return fmt.Sprint(v)
	case []string:
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = strconv.Quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	case map[string]string:
		pairs := make([]string, 0, len(v))
		for key, value := range v {
			pairs = append(pairs, strconv.Quote(key)+" = "+strconv.Quote(value))
		}
		slices.Sort(pairs)
		return "{" + strings.Join(pairs, ", ") + "}"
	case fmt.Stringer:
		return strconv.Quote(v.String())
	}
	return fmt.Sprintf("%q", fmt.Sprint(v))
}
