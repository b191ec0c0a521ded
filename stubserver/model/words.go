package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
)

// directive is one [[word arguments]] of a message.
type directive struct{ word, args, whole string }

var directivePattern = regexp.MustCompile(`(?s)\[\[([a-z][a-z-]*)(?:[ \t\n](.*?))?\]\]`)

func directives(text string) []directive {
	var found []directive
	for _, m := range directivePattern.FindAllStringSubmatch(text, -1) {
		found = append(found, directive{word: m[1], args: strings.TrimSpace(m[2]), whole: m[0]})
	}
	return found
}

// echoMax bounds the echo, so that a prompt of a million characters does not
// come back whole.
const echoMax = 4000

// compactionPrompt begins the message with which codex asks for a summary of
// the thread (codex app-server 0.171.0, measured).
const compactionPrompt = "CONTEXT CHECKPOINT COMPACTION"

// byWords is the default behaviour: what the newest user message asks for.
// count returns how often the directive was seen before, this time included.
func byWords(req Request, count func(string) int) Reply {
	newest := req.Newest()
	if strings.Contains(newest, compactionPrompt) {
		return Reply{Text: "Summary of the conversation. " + rememberMarks(req.Users)}
	}
	found := directives(newest)
	done := len(req.Outputs)
	for _, d := range found {
		call, ok := toolCall(d, req.Tools)
		if !ok {
			continue
		}
		if done == 0 {
			return Reply{Calls: []Call{call}}
		}
		done--
	}
	reply := Reply{}
	var said []string
	if len(req.Outputs) > 0 {
		said = append(said, "Output:\n"+strings.Join(req.Outputs, "\n---\n"))
	}
	text, exact := "", false
	for _, d := range found {
		switch d.word {
		case "remember":
			said = append(said, "I will remember "+d.args+".")
		case "recall":
			said = append(said, recall(req.Users))
		case "reply":
			text, exact = d.args, true
		case "big":
			text, exact = strings.Repeat("x", number(d.args, 1)), true
		case "commentary":
			reply.Commentary = "Let me think about this first."
		case "slow":
			reply.Pieces = number(d.args, 10)
		case "cut":
			reply.Cut = true
		case "stall":
			return Reply{Stall: true}
		case "stall-headers":
			return Reply{StallHeaders: true}
		case "empty":
			if within(d, count) {
				return Reply{}
			}
		case "http":
			return httpReply(d.args)
		case "usage-limit":
			return usageLimit(number(d.args, 3600))
		case "context-window":
			if within(d, count) {
				return Reply{Failure: &Failure{"context_length_exceeded", "Your input exceeds the context window of this model."}}
			}
		case "overloaded":
			return Reply{Failure: &Failure{"server_is_overloaded", "Our servers are currently overloaded."}}
		}
	}
	switch {
	case exact:
		reply.Text = text
	case len(said) > 0:
		reply.Text = strings.Join(said, "\n")
	case strings.HasPrefix(newest, "Task: ") && !strings.Contains(newest, "\nMessage:\n"):
		reply.Text = "I have finished what was left." // a follow-up repeats no message
	default:
		reply.Text = "You said: " + clip(newest, echoMax)
	}
	return reply
}

// within reports whether a directive with an optional limit still applies.
func within(d directive, count func(string) int) bool {
	limit, err := strconv.Atoi(strings.SplitN(d.args, " ", 2)[0])
	return err != nil || count(d.whole) <= limit
}

func toolCall(d directive, tools []string) (Call, bool) {
	switch d.word {
	case "sh":
		return Call{Name: "exec_command", Arguments: object("cmd", d.args)}, true
	case "view":
		return Call{Name: "view_image", Arguments: object("path", d.args)}, true
	case "patch":
		for _, name := range tools {
			if name == "apply_patch" {
				return Call{Name: name, Arguments: d.args, Custom: true}, true
			}
		}
		// Models that codex has no metadata for get no such tool; they write a
		// command, which codex intercepts.
		return Call{Name: "exec_command", Arguments: object("cmd", "apply_patch <<'END_OF_PATCH'\n"+d.args+"\nEND_OF_PATCH")}, true
	case "tool":
		name, args, _ := strings.Cut(d.args, " ")
		if args == "" {
			args = "{}"
		}
		return Call{Name: name, Arguments: args}, true
	}
	return Call{}, false
}

func object(key, value string) string {
	return "{" + jsonString(key) + ":" + jsonString(value) + "}"
}

// jsonString spells a string as codex does: without the HTML escapes of
// encoding/json.
func jsonString(s string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // strings always encode
	return strings.TrimSuffix(b.String(), "\n")
}

// remembered lists the words of all [[remember X]] in the user messages of a
// request, which is all the memory there is.
func remembered(users []string) []string {
	var words []string
	for _, text := range users {
		for _, d := range directives(text) {
			if d.word == "remember" {
				words = append(words, d.args)
			}
		}
	}
	return words
}

func recall(users []string) string {
	words := remembered(users)
	if len(words) == 0 {
		return "I remember nothing."
	}
	return "I remember: " + strings.Join(words, ", ") + "."
}

// rememberMarks carries the remembered words through a compaction.
func rememberMarks(users []string) string {
	var b strings.Builder
	for _, word := range remembered(users) {
		fmt.Fprintf(&b, "[[remember %s]] ", word)
	}
	return b.String()
}

func httpReply(args string) Reply {
	status, body, _ := strings.Cut(args, " ")
	code, err := strconv.Atoi(status)
	if err != nil || code < 400 || code > 599 {
		code = http.StatusInternalServerError
	}
	if !json.Valid([]byte(body)) {
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": strings.TrimSpace(body)}})
		body = string(b)
	}
	return Reply{Status: code, Body: body}
}

func usageLimit(seconds int) Reply {
	b, _ := json.Marshal(map[string]any{"error": map[string]any{
		"type": "usage_limit_reached", "message": "The usage limit has been reached", "resets_in_seconds": seconds,
	}})
	return Reply{Status: http.StatusTooManyRequests, Body: string(b)}
}

func number(text string, otherwise int) int {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || n < 1 || n > 64<<20 {
		return otherwise
	}
	return n
}

func clip(text string, max int) string {
	runes := []rune(text)
	if len(runes) <= max {
		return text
	}
	return string(runes[:max]) + " [...]"
}
