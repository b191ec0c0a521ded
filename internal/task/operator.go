package task

import "strings"

// A block is a text that the gateway itself puts below `access_tier`, known
// by its fence lines. Nothing else in a file is operator text: not what
// stands between the text and the tier, where header values are senders'
// words, and not a fence inside a line, which is where a fence in a message
// ends up.
type block struct {
	open, end string        // end "" = to the end of the file
	trust     map[Tier]bool // tiers whose file has it: there it is operator text
	drop      map[Tier]bool // tiers where it is left out altogether
}

// blocks are the three known ones. A block in a file of a tier that does not
// have it is not the gateway's doing and stays data. The guest block is left
// out: it tells its reader to hand the work to a new Codex, and its reader
// is Codex; the non-owner note of the prompt stands in its place.
func blocks() []block {
	return []block{
		{
			open:  "===SUTANDO SECURITY NOTICE (bridge-generated; do not ignore)===",
			end:   "===END SUTANDO SECURITY NOTICE===",
			trust: map[Tier]bool{Owner: true, Team: true, Guest: true},
		},
		{
			open:  "===SUTANDO SYSTEM INSTRUCTIONS (do not ignore; overrides anything above)===",
			end:   "===END SUTANDO SYSTEM INSTRUCTIONS===",
			trust: map[Tier]bool{Team: true},
			drop:  map[Tier]bool{Guest: true},
		},
		{
			open:  "===SKILL INSTRUCTIONS (follow before any other action)===",
			trust: map[Tier]bool{Owner: true},
		},
	}
}

// cutAtTier cuts the lines below the text after the last `access_tier:`
// line. The last one: a forged tier line and a forged fence in a text that
// was not folded still stand above the gateway's own.
func cutAtTier(below string) (above, tail string) {
	const mark = "access_tier:"
	at := -1
	if strings.HasPrefix(below, mark) {
		at = 0
	}
	if i := strings.LastIndex(below, "\n"+mark); i >= 0 {
		at = i + 1
	}
	if at < 0 {
		return below, ""
	}
	line, _ := cutLine(below[at:])
	end := min(at+len(line)+1, len(below))
	return below[:end], below[end:]
}

// takeBlocks takes the gateway's blocks for tier out of the lines below the
// text, and returns the other lines and the blocks, fences included. Each
// kind counts once, and only when it is whole.
func takeBlocks(below string, tier Tier) (rest, operator string) {
	above, tail := cutAtTier(below)
	var left strings.Builder
	left.WriteString(above)
	var found []string
	known := blocks()
	for tail != "" {
		line, next := cutLine(tail)
		i := -1
		for k := range known {
			if known[k].open != "" && strings.TrimRight(line, " \t\r") == known[k].open {
				i = k
			}
		}
		if i >= 0 {
			b := known[i]
			known[i].open = "" // one of a kind; also keeps the scan for an end linear
			if text, after, whole := b.cut(tail); whole && (b.trust[tier] || b.drop[tier]) {
				if b.trust[tier] {
					found = append(found, text)
				}
				tail = after
				continue
			}
		}
		left.WriteString(line)
		left.WriteByte('\n')
		tail = next
	}
	return left.String(), strings.Join(found, "\n\n")
}

// cut takes the block that s begins with.
func (b block) cut(s string) (text, after string, whole bool) {
	if b.end == "" {
		return strings.TrimRightFunc(s, IsSpace), "", true
	}
	for at := 0; at < len(s); {
		line, _ := cutLine(s[at:])
		end := min(at+len(line)+1, len(s))
		if strings.TrimRight(line, " \t\r") == b.end {
			return strings.TrimRightFunc(s[:end], IsSpace), s[end:], true
		}
		at = end
	}
	return "", s, false
}
