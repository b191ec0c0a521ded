package rpc

import (
	"bytes"
	"log/slog"
	"sync/atomic"
)

// BadLine is a line that was skipped. It holds nothing of the line's text, which
// may be anybody's conversation.
type BadLine struct {
	Kind  BadKind
	Bytes int
	// First is the class of the line's first byte: object, array, string, digit,
	// letter, escape, blank, control, high or other.
	First string
	// Count is the number of bad lines so far on this connection.
	Count uint64
}

// BadKind is what is wrong with a line.
type BadKind string

// All kinds of bad lines.
const (
	// BadBlank: nothing but white space.
	BadBlank BadKind = "blank"
	// BadNotJSON: no JSON object, as from a banner of a wrapper script.
	BadNotJSON BadKind = "not_json"
	// BadMalformed: begins like a JSON object and is none.
	BadMalformed BadKind = "malformed"
	// BadCut: the stream ended in the middle of it.
	BadCut BadKind = "cut"
	// BadShape: a JSON object, but neither request, notification nor reply.
	BadShape BadKind = "shape"
	// BadID: a request whose id is no string and no integer from 0 on.
	BadID BadKind = "id"
	// BadReply: a reply to a request that was never made here.
	BadReply BadKind = "reply"
	// BadOversized: over the read limit. Whoever waits for it was told.
	BadOversized BadKind = "oversized"
)

// classOf names the kind of byte that a line begins with.
func classOf(data []byte) string {
	data = bytes.TrimLeft(data, " \t\r\n")
	if len(data) == 0 {
		return "blank"
	}
	switch c := data[0]; {
	case c == '{':
		return "object"
	case c == '[':
		return "array"
	case c == '"':
		return "string"
	case c >= '0' && c <= '9' || c == '-':
		return "digit"
	case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
		return "letter"
	case c == 0x1b:
		return "escape"
	case c < 0x20 || c == 0x7f:
		return "control"
	case c >= 0x80:
		return "high"
	default:
		return "other"
	}
}

// badLines are counted where they are found and reported through the event queue.
type badLines struct {
	count  atomic.Uint64
	logger *slog.Logger
	report func(event)
}

// loggedBadLines are logged one by one; after them every thousandth, so that a
// child that babbles does not fill the log.
const loggedBadLines = 10

func (b *badLines) add(kind BadKind, l line) {
	count := b.count.Add(1)
	first := l.data
	if l.oversized() {
		first = l.head
	}
	bad := BadLine{Kind: kind, Bytes: l.size, First: classOf(first), Count: count}
	if count <= loggedBadLines || count%1000 == 0 {
		b.logger.Warn("skipped a line of the app-server", "kind", string(kind), "bytes", bad.Bytes, "first", bad.First, "count", bad.Count)
	}
	b.report(bad)
}
