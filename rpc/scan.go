package rpc

import (
	"bytes"
	"encoding/json"
)

// sketch is what can be told of a message from its two ends, or from a line that
// is no valid JSON: what kind it is and whom it concerns.
type sketch struct {
	method           string
	hasMethod        bool
	id               []byte // as it stands; nil when absent
	isReply          bool   // has a result or an error
	threadID, turnID string
	headPath         []string // the members that were open where the head ends
}

// sketchOf reads the ends of an oversized line. The server puts method, threadId
// and turn.id at the head, the turnId of items and the id of error replies at the
// tail (codex app-server 0.171.0, measured).
func sketchOf(head, tail []byte) sketch {
	var s sketch
	s.scanHead(head)
	if tail != nil {
		s.scanTail(tail)
	}
	return s
}

// depthKept is as deep as anything of interest lies: params.turn.id.
const depthKept = 3

func (s *sketch) record(path []string, value []byte) {
	switch len(path) {
	case 1:
		switch path[0] {
		case "method":
			if !s.hasMethod {
				s.method, s.hasMethod = text(value)
			}
		case "id":
			if s.id == nil && string(value) != "null" {
				s.id = append([]byte{}, value...)
			}
		case "result":
			s.isReply = true
		case "error":
			s.isReply = s.isReply || string(value) != "null"
		}
	case 2, 3:
		if path[0] != "params" {
			return
		}
		into := &s.threadID
		switch key := path[1]; {
		case len(path) == 2 && (key == "threadId" || key == "conversationId"):
		case len(path) == 3 && key == "thread" && path[2] == "id":
		case len(path) == 2 && key == "turnId", len(path) == 3 && key == "turn" && path[2] == "id":
			into = &s.turnID
		default:
			return
		}
		if *into == "" {
			*into, _ = text(value)
		}
	}
}

func text(value []byte) (string, bool) {
	var s string
	if len(value) == 0 || value[0] != '"' || json.Unmarshal(value, &s) != nil {
		return "", false
	}
	return s, true
}

// scanHead reads forward until b ends or makes no sense any more.
func (s *sketch) scanHead(b []byte) {
	type frame struct {
		array, keyNext bool
		key            string
	}
	var stack []frame
	path := func() []string {
		var keys []string
		for _, f := range stack[:min(len(stack), depthKept)] {
			keys = append(keys, f.key) // "" inside an array, which matches nothing
		}
		return keys
	}
	defer func() {
		s.headPath = path()
		if len(stack) > 0 && (stack[0].key == "result" || stack[0].key == "error") {
			s.isReply = true // the head ends within it
		}
	}()
	for i := 0; i < len(b); {
		c := b[i]
		if len(stack) == 0 && c != '{' && !space(c) {
			return
		}
		switch {
		case space(c):
			i++
		case c == '{' || c == '[':
			if len(stack) == 1 && !stack[0].array {
				s.record(path(), b[i:i+1]) // result and error count from their first byte
			}
			stack = append(stack, frame{array: c == '[', keyNext: c == '{'})
			i++
		case c == '}' || c == ']':
			stack = stack[:len(stack)-1]
			if len(stack) == 0 {
				return
			}
			i++
		case c == ',':
			top := &stack[len(stack)-1]
			top.keyNext, top.key = !top.array, ""
			i++
		case c == ':':
			i++
		default:
			end := scalarEnd(b, i)
			if end < 0 {
				return
			}
			top := &stack[len(stack)-1]
			switch {
			case top.keyNext:
				key, ok := text(b[i:end])
				if !ok {
					return
				}
				top.key, top.keyNext = key, false
			case len(stack) <= depthKept:
				s.record(path(), b[i:end])
			}
			i = end
		}
	}
}

// scalarEnd is the end of the string, number or word at b[i]; -1 when b ends first.
func scalarEnd(b []byte, i int) int {
	if b[i] == '"' {
		for j := i + 1; j < len(b); j++ {
			switch b[j] {
			case '\\':
				j++
			case '"':
				return j + 1
			}
		}
		return -1
	}
	for j := i + 1; j < len(b); j++ {
		if space(b[j]) || bytes.IndexByte(punctuation, b[j]) >= 0 {
			return j
		}
	}
	return -1
}

var punctuation = []byte(`{}[],:"`)

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// member is what scanTail found, with its path as far as it is known: the keys of
// enclosing objects stand before them, so they are met later.
type member struct {
	path  []string
	value []byte
}

// scanTail reads backward from the end. Strings can be told from what is between
// them in this direction too: a quote that ends one is where we start, and the
// one that begins it is the first with an even number of backslashes before it.
// Objects whose beginning is not in b are taken for those that were still open
// where the head ended.
func (s *sketch) scanTail(b []byte) {
	type frame struct {
		array, keyNext bool
		members        []member // found inside
		value          []member // the member that waits for its key
	}
	stack := []frame{{}}
	defer func() {
		for depth, f := range stack[1:] { // the root object first
			if depth > len(s.headPath) || f.array {
				return
			}
			for _, m := range f.members {
				s.record(append(append([]string{}, s.headPath[:depth]...), m.path...), m.value)
			}
		}
	}()
	for i := len(b); i > 0; {
		c := b[i-1]
		top := &stack[len(stack)-1]
		if len(stack) == 1 && c != '}' && !space(c) {
			return
		}
		switch {
		case space(c):
			i--
		case c == '}' || c == ']':
			stack = append(stack, frame{array: c == ']'})
			i--
		case c == '{' || c == '[':
			done := *top
			if len(stack) == 2 { // the whole message is in b
				for _, m := range done.members {
					s.record(m.path, m.value)
				}
				stack = stack[:1]
				return
			}
			stack = stack[:len(stack)-1]
			top = &stack[len(stack)-1]
			top.value = []member{{value: b[i-1 : i]}}
			if !done.array {
				top.value = append(top.value, done.members...)
			}
			i--
		case c == ',':
			i--
		case c == ':':
			top.keyNext = true
			i--
		default:
			start := scalarStart(b, i)
			if start < 0 {
				return
			}
			word := b[start:i]
			i = start
			if !top.keyNext {
				top.value = []member{{value: word}}
				continue
			}
			top.keyNext = false
			key, ok := text(word)
			if !ok {
				return
			}
			if len(stack)-1 <= depthKept {
				for _, m := range top.value {
					if len(m.path) < depthKept {
						top.members = append(top.members, member{append([]string{key}, m.path...), m.value})
					}
				}
			}
			top.value = nil
		}
	}
}

// scalarStart is the start of the string, number or word that ends before b[i];
// -1 when b begins first.
func scalarStart(b []byte, i int) int {
	if b[i-1] == '"' {
		for j := i - 2; j >= 0; j-- {
			if b[j] != '"' {
				continue
			}
			slashes := 0
			for j-1-slashes >= 0 && b[j-1-slashes] == '\\' {
				slashes++
			}
			if j-1-slashes < 0 {
				return -1 // whether this quote is escaped lies before b
			}
			if slashes%2 == 0 {
				return j
			}
		}
		return -1
	}
	for j := i - 2; j >= 0; j-- {
		if space(b[j]) || bytes.IndexByte(punctuation, b[j]) >= 0 {
			return j + 1
		}
	}
	return -1
}
