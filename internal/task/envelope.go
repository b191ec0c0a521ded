package task

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
)

// stampPrefix begins a stamp line. Exactly these bytes: no other version,
// case or blank counts.
var stampPrefix = []byte("envelope_hmac: v1:")

// Key is the HMAC key that gateways and this service share on one machine.
type Key []byte

// String keeps the key out of everything that formats values.
func (Key) String() string { return "[key]" }

// GoString does the same for %#v.
func (Key) GoString() string { return "[key]" }

// LogValue does the same for slog.
func (Key) LogValue() slog.Value { return slog.StringValue("[key]") }

// ParseKey reads a key file's text: 64 hex digits in either case, white
// space around them trimmed. Anything else is no key; in particular an empty
// file is not a key of length zero, with which anybody could sign.
func ParseKey(text []byte) (Key, error) {
	digits := bytes.TrimFunc(text, IsSpace)
	if len(digits) != 2*sha256.Size {
		return nil, errors.New("read HMAC key: want 64 hex digits")
	}
	key := make(Key, sha256.Size)
	if _, err := hex.Decode(key, digits); err != nil {
		return nil, errors.New("read HMAC key: want 64 hex digits")
	}
	return key, nil
}

// Verify judges the exact bytes of a file. The order is the protocol's: no
// stamp in the slot is Unsigned whatever the key is, a stamp without a key
// is Unverifiable, and only then does the MAC decide. A byte that was
// changed in transit by newline folding makes a file Invalid here, where
// readers of folded text may say otherwise: what is parsed is these bytes.
func Verify(raw []byte, key Key) Verdict {
	mac, content, ok := splitStamp(raw)
	if !ok {
		return Unsigned
	}
	if len(key) == 0 {
		return Unverifiable
	}
	if hmac.Equal(mac, macText(content, key)) {
		return Verified
	}
	return Invalid
}

// Stamp returns raw with a stamp over its bytes in the slot, in place of the
// one that was there. Without a key it returns raw: writers fail open.
func Stamp(raw []byte, key Key) []byte {
	if len(key) == 0 {
		return raw
	}
	content := raw
	if _, rest, ok := splitStamp(raw); ok {
		content = rest
	}
	line := append(bytes.Clone(stampPrefix), macText(content, key)...)
	first, rest, more := bytes.Cut(content, []byte("\n"))
	var lines [][]byte
	switch {
	case !bytes.HasPrefix(first, []byte("id:")):
		lines = [][]byte{line, content}
	case more:
		lines = [][]byte{first, line, rest}
	default:
		lines = [][]byte{first, line}
	}
	return bytes.Join(lines, []byte("\n"))
}

// splitStamp takes the stamp out of its slot: line 0, or line 1 when line 0
// begins `id:`. Line 0 is tried first. A stamp-shaped line anywhere else is
// content and covered by the MAC. content is the file without that line and
// without one LF, as if its lines had been split, one dropped, and joined.
func splitStamp(raw []byte) (mac, content []byte, ok bool) {
	first, rest, more := bytes.Cut(raw, []byte("\n"))
	if text, is := bytes.CutPrefix(first, stampPrefix); is {
		return bytes.TrimFunc(text, IsSpace), rest, true
	}
	if !more || !bytes.HasPrefix(first, []byte("id:")) {
		return nil, nil, false
	}
	second, tail, more := bytes.Cut(rest, []byte("\n"))
	text, is := bytes.CutPrefix(second, stampPrefix)
	if !is {
		return nil, nil, false
	}
	if !more {
		return bytes.TrimFunc(text, IsSpace), first, true
	}
	content = make([]byte, 0, len(raw))
	content = append(content, raw[:len(first)+1]...)
	content = append(content, tail...)
	return bytes.TrimFunc(text, IsSpace), content, true
}

func macText(content []byte, key Key) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(content)
	return hex.AppendEncode(nil, h.Sum(nil))
}
