package sandbox

import (
	"fmt"
	"strings"
)

// quoteTOML writes a TOML basic string. Go's %q is not one: its \x and \a
// escapes are no TOML.
func quoteTOML(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// pair is one key of an inline table; its value is TOML already.
type pair struct{ key, value string }

// inlineTable writes the pairs in the order given, keys quoted.
func inlineTable(pairs []pair) string {
	parts := make([]string, 0, len(pairs))
	for _, p := range pairs {
		parts = append(parts, quoteTOML(p.key)+"="+p.value)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
