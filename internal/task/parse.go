package task

import (
	"strings"
	"unicode/utf8"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
)

// Parse judges and reads one file. stem is the file's name without `.txt`,
// raw its bytes, read once: the envelope is judged on the bytes that are
// parsed. A returned error is always a *Rejection; the Task then still
// carries what is sound: the id, the verdict, and, from files whose headers
// may be believed at all, tier and channel. Whatever could not be established
// is Guest.
func Parse(stem string, raw []byte, key Key, policy Policy) (Task, error) {
	t := Task{ID: stem, Tier: Guest, Priority: Normal, Layout: LayoutLast, Interaction: "message"}
	t.Verdict = Verify(raw, key)
	if !ValidID(stem) {
		return t, reject(reason.FileNameBad, "%.140q is no task id", stem)
	}
	if len(raw) > MaxBytes {
		return t, reject(reason.FileTooLarge, "%d bytes, at most %d are read", len(raw), MaxBytes)
	}
	// Before the verdict counts: a stamp over undecodable bytes can be right,
	// and no writer that stamps can make such a file.
	if !utf8.Valid(raw) {
		return t, reject(reason.FileNotUTF8, "the file is not valid UTF-8")
	}
	policy = policy.Resolve(len(key) > 0)
	if t.Verdict == Invalid {
		return t, reject(reason.EnvelopeInvalid, "the stamp does not match the file")
	}
	if policy == PolicyStrict && t.Verdict != Verified {
		return t, reject(reason.EnvelopeRequired, "the file is %s and only verified ones run here", t.Verdict)
	}

	text := string(raw)
	p, ok := split(text)
	if !ok {
		return t, reject(reason.NoTask, "no line begins with task:")
	}
	claimsMid := layoutMarker(p.head)
	if claimsMid && (policy == PolicyAccept || t.Verdict == Verified) {
		t.Layout = LayoutMid
	}
	var ids []string
	switch t.Layout {
	case LayoutMid:
		ids = t.readMid(p)
	case LayoutLast:
		ids = t.readLast(p)
	}
	t.Priority = readPriority(text)
	// A file that calls itself something else than its name is refused:
	// results are looked up by the name, journals by whichever half one took,
	// and a task keyed by both is run again after every restart. No id line at
	// all is allowed: upstream's rule is that the header is the authority and
	// that the name answers when none is declared.
	for _, id := range ids {
		if id = clean(id); id != "" && id != stem {
			return t, reject(reason.IDMismatch, "the file calls itself %.140q", id)
		}
	}
	// A file that claims one line of text and has none is as empty to the
	// strict reader, which would take the headers below for the request.
	if t.Body == "" || (claimsMid && p.ask == "") {
		t.Body = ""
		return t, reject(reason.EmptyTask, "nothing stands behind task:")
	}
	return t, nil
}

// layoutMarker reports whether the strict reader sees `task_layout: mid`:
// above `task:`, where no message text can stand. Contradicting markers are none.
func layoutMarker(head string) bool {
	seen, all := false, true
	each(head, func(key, value string) {
		if key == "task_layout" {
			seen = true
			all = all && clean(value) == "mid"
		}
	})
	return seen && all
}

// readLast is the strict reader: headers above `task:`, the first occurrence
// wins, everything else is the body. It returns all values of `id` it believed.
func (t *Task) readLast(p parts) (ids []string) {
	t.Headers = make(map[string]string)
	var tier tierVotes
	each(p.head, func(key, value string) {
		if _, has := t.Headers[key]; !has {
			t.Headers[key] = value
		}
		if key == "id" {
			ids = append(ids, value)
		}
		tier.see(key, value)
	})
	t.Tier = tier.result()
	t.Body = p.whole()
	t.fill(tier)
	return ids
}

// readMid is the trusted full scan: headers on both sides of the text, the
// last occurrence wins. The text is the one line behind `task:`; lines that
// are neither headers nor blocks of the gateway stay data and follow it.
func (t *Task) readMid(p parts) (ids []string) {
	var tier tierVotes
	each(p.head, tier.see)
	tierAbove := tier.seen
	each(p.below, tier.see)
	t.Tier = tier.result()

	t.Headers = make(map[string]string)
	keep := func(key, value string) {
		t.Headers[key] = value
		if key == "id" {
			ids = append(ids, value)
		}
	}
	each(p.head, keep)
	if t.Tier == Ambient || tier.unsound {
		// An ambient file ends in lines that people in the room wrote, and a
		// file that contradicts itself was not written by the gateway alone.
		// All of it is data, and only the headers directly below the text count.
		t.Body = p.whole()
		each(topHeaders(p.below), keep)
	} else {
		rest := p.below
		if !tierAbove {
			// Only below the gateway's own tier line do its blocks begin. With
			// the tier above the text, a tier line below is not its own.
			rest, t.Operator = takeBlocks(p.below, t.Tier)
		}
		body := []string{p.ask}
		for line := range strings.SplitSeq(rest, "\n") {
			if key, value, ok := header(line); ok && vocabulary[key] {
				keep(key, value)
			} else {
				body = append(body, line)
			}
		}
		t.Body = strings.TrimFunc(strings.Join(body, "\n"), IsSpace)
	}
	t.fill(tier)
	return ids
}

// topHeaders is the run of header lines directly below the text.
func topHeaders(below string) string {
	at := 0
	for at < len(below) {
		line, _ := cutLine(below[at:])
		if key, _, ok := header(line); !ok || !vocabulary[key] {
			break
		}
		at += min(len(line)+1, len(below)-at)
	}
	return below[:at]
}

// tierVotes collects what the tier lines of a file say. The strict reader
// shows it the lines above `task:`, the full scan all lines: then the lines
// that the poster's guard goes by (those above, else all) are always among
// them. The reply is posted under the guard's reading, so two values mean
// that one of the two readers would be wrong, and both lose: Guest.
type tierVotes struct {
	tier          Tier
	collaborator  bool
	seen, unsound bool
	denied        bool
}

func (v *tierVotes) see(key, value string) {
	switch key {
	case "access_tier":
		tier, known := CanonicalTier(value)
		v.unsound = v.unsound || !known || (v.seen && tier != v.tier)
		v.tier, v.seen = tier, true
	case "collaborator":
		if clean(value) == "true" {
			v.collaborator = true
		} else {
			v.denied = true
		}
	}
}

func (v *tierVotes) result() Tier {
	if !v.seen || v.unsound {
		return Guest
	}
	return v.tier
}

// fill takes the named fields out of the believed headers.
func (t *Task) fill(v tierVotes) {
	first := func(keys ...string) string {
		for _, key := range keys {
			if value := clean(t.Headers[key]); value != "" {
				return value
			}
		}
		return ""
	}
	t.Collaborator = t.Tier == Team && v.collaborator && !v.denied
	t.ChannelID = first("channel_id")
	t.Sender = first("sender_name", "author_name", "caller")
	t.SenderID = first("user_id", "author_id", "from")
	t.Room = first("room_name", "channel_name")
	t.Source = first("source")
	t.Timestamp = first("timestamp")
	t.SourceMessageID = first("source_message_id")
	if kind := first("interaction_type"); interactions[kind] {
		t.Interaction = kind
	}
	t.Attachments = ParseAttachments(t.Headers["attachments"])
}

// readPriority follows the order the gateways' own readers use, whatever the
// layout: the first priority line decides, read only as far as the first
// blank line, `---` or `task:`. A priority below the text (older gateway
// files, all ambient ones) is Normal everywhere, so it is here. One thing
// differs on purpose: those readers also break lines at CR, NEL and U+2028,
// with which a sender's name could make itself urgent; here only LF does.
func readPriority(text string) Priority {
	const mark = "priority:"
	for line := range strings.SplitSeq(text, "\n") {
		line = clean(line)
		if line == "" || strings.HasPrefix(line, "task:") || strings.HasPrefix(line, "---") {
			break
		}
		if len(line) >= len(mark) && strings.EqualFold(line[:len(mark)], mark) {
			p, _ := ParsePriority(line[len(mark):])
			return p
		}
	}
	return Normal
}
