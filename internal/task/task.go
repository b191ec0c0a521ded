// Package task is the task file format of the gateways: bytes in, a Task or
// a reason out.
//
// It owns the line grammar, the two layouts and who may be read by which
// reader, tiers, ids, priorities, attachments and the HMAC envelope. It is
// pure: it never opens a file, never looks at a clock and never logs. Facts
// about the format were read in the gateways' code and tests and are argued
// where they are used.
//
// # Readers
//
// The strict reader believes only what stands above the first `task:` line;
// everything from there on was written by somebody in a room. The trusted
// full scan believes headers below it too. It is the only way to read a
// gateway's file (its tier stands below the text) and it is safe only where
// the writer folds every value to one line, which the header
// `task_layout: mid` claims and, except under PolicyAccept, the HMAC proves.
package task

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// MaxBytes is the largest task file that is parsed. Codex takes at most
// 1,048,576 characters of prompt, which is 4 MiB of UTF-8; twice that leaves
// room for headers and blocks and still refuses what can never be asked.
const MaxBytes = 8 << 20

// Tier is who is asking.
type Tier string

// The four tiers. Whatever is absent, unknown or contradictory is Guest.
const (
	Owner   Tier = "owner"
	Team    Tier = "team"
	Guest   Tier = "guest"
	Ambient Tier = "ambient"
)

// AllTiers returns the tiers, most trusted first.
func AllTiers() []Tier { return []Tier{Owner, Team, Guest, Ambient} }

// CanonicalTier trims and lower-cases s, reads the old spelling `other` as
// guest, and reports whether s names a tier at all. What does not is Guest.
func CanonicalTier(s string) (Tier, bool) {
	switch t := strings.ToLower(strings.TrimFunc(s, IsSpace)); t {
	case "owner", "team", "guest", "ambient":
		return Tier(t), true
	case "other":
		return Guest, true
	default:
		return Guest, false
	}
}

// Verdict is what the HMAC envelope says about the bytes of a file.
type Verdict string

// The four verdicts. Unsigned must not be read as safe: moving the stamp out
// of its slot turns tampering into Unsigned.
const (
	Verified     Verdict = "verified"
	Unsigned     Verdict = "unsigned"
	Unverifiable Verdict = "unverifiable"
	Invalid      Verdict = "invalid"
)

// Priority is the order class of a task; lower runs first.
type Priority uint8

// The three priorities. Note that the zero value is Urgent, as the order
// number is part of the protocol (urgent 0 < normal 1 < low 2).
const (
	Urgent Priority = iota
	Normal
	Low
)

// String returns the word of the file format.
func (p Priority) String() string {
	switch p {
	case Urgent:
		return "urgent"
	case Normal:
		return "normal"
	case Low:
		return "low"
	default:
		return fmt.Sprintf("priority(%d)", uint8(p))
	}
}

// ParsePriority reads one of the three words, in any case. Anything else is
// Normal and false.
func ParsePriority(s string) (Priority, bool) {
	switch strings.ToLower(strings.TrimFunc(s, IsSpace)) {
	case "urgent":
		return Urgent, true
	case "normal":
		return Normal, true
	case "low":
		return Low, true
	default:
		return Normal, false
	}
}

// MarshalText makes JSON carry the word, not the number.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Priority) UnmarshalText(text []byte) error {
	v, ok := ParsePriority(string(text))
	if !ok {
		return fmt.Errorf("read priority %q: want urgent, normal or low", text)
	}
	*p = v
	return nil
}

// Layout is which reader a file was given to.
type Layout string

// LayoutLast: the strict reader; nothing below `task:` is a header.
// LayoutMid: the trusted full scan; headers stand below `task:` too.
const (
	LayoutLast Layout = "last"
	LayoutMid  Layout = "mid"
)

// Attachment is one element of the `attachments` header. Everything in it is
// the sender's word: Locator is a path to be checked, not to be opened.
type Attachment struct {
	Locator, ID, MIME, Filename, SHA256, Expiry string
	Size                                        int64 // 0 when unknown
}

// Task is one task file, read by the reader that its policy allows.
type Task struct {
	ID           string
	Tier         Tier
	Collaborator bool   // only ever true for Team
	ChannelID    string // "" when absent
	Priority     Priority
	Layout       Layout
	Verdict      Verdict

	// Body is what was asked. It is untrusted, whoever the sender is.
	Body string
	// Operator is the gateway's own blocks of a trusted mid file, fences
	// included, to stand after the wrapper as operator text.
	Operator string

	Attachments                                                             []Attachment
	Sender, SenderID, Room, Source, Interaction, Timestamp, SourceMessageID string

	// Headers are the metadata headers that were believed, values verbatim.
	Headers map[string]string
}

// ChannelKey is the name of a channel that is safe in file names and
// database keys: the sha256 of its id, or "default" when it has none. The id
// itself is the sender's side's choice (`..` was seen) and never a path.
func ChannelKey(channelID string) string {
	if channelID == "" {
		return "default"
	}
	sum := sha256.Sum256([]byte(channelID))
	return hex.EncodeToString(sum[:])
}

// Rejection says why a file is not run.
type Rejection struct {
	Reason reason.Reason
	Detail string
}

// Error implements error.
func (r *Rejection) Error() string {
	if r.Detail == "" {
		return string(r.Reason)
	}
	return string(r.Reason) + ": " + r.Detail
}

func reject(why reason.Reason, format string, args ...any) *Rejection {
	return &Rejection{Reason: why, Detail: fmt.Sprintf(format, args...)}
}
