package task

import "unicode"

// IsSpace is Python's str.isspace, which all other readers of task and
// result files trim with: Unicode white space and the separators 0x1C to
// 0x1F, which unicode.IsSpace leaves out.
func IsSpace(r rune) bool { return unicode.IsSpace(r) || (r >= 0x1c && r <= 0x1f) }
