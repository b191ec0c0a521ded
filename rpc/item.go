package rpc

import (
	"encoding/json"
	"strings"
)

// Types of [Item] that are read; the set is open, and others are signs of life.
const (
	ItemUserMessage       = "userMessage"
	ItemAgentMessage      = "agentMessage"
	ItemCommandExecution  = "commandExecution"
	ItemContextCompaction = "contextCompaction"
)

// Phases of an agent message. Providers are not consistent, and the field may be
// absent.
const (
	PhaseCommentary    = "commentary"
	PhasePartialAnswer = "partial_answer"
	PhaseFinalAnswer   = "final_answer"
)

// Item is one step of a turn.
type Item struct {
	Type string
	ID   string
	// Text of an agent message, or all text parts of a user message.
	Text string
	// Phase of an agent message; "" when absent.
	Phase string
	// ClientID of a user message: the ClientUserMessageID of its turn/start.
	ClientID string
	// Raw is the item as it came. When set it is what is written, too.
	Raw json.RawMessage
}

type wireItem struct {
	Type     string      `json:"type"`
	ID       string      `json:"id"`
	Text     string      `json:"text"`
	Phase    string      `json:"phase"`
	ClientID string      `json:"clientId"`
	Content  []UserInput `json:"content"`
}

// UnmarshalJSON never fails on a well-formed value: an item that is not
// understood is still an item.
func (i *Item) UnmarshalJSON(data []byte) error {
	var w wireItem
	_ = decode(data, &w)
	*i = Item{Type: w.Type, ID: w.ID, Text: w.Text, Phase: w.Phase, ClientID: w.ClientID, Raw: append(json.RawMessage(nil), data...)}
	if w.Type == ItemUserMessage {
		var parts []string
		for _, part := range w.Content {
			if part.Type == InputText {
				parts = append(parts, part.Text)
			}
		}
		i.Text = strings.Join(parts, "\n")
	}
	return nil
}

// Answer picks the text that answers among the items of a turn: the last message
// marked final, else the last that is not commentary. Commentary is never promoted.
func Answer(items []Item) (text string, final bool) {
	for i := len(items) - 1; i >= 0; i-- {
		it := items[i]
		if it.Type != ItemAgentMessage || strings.TrimSpace(it.Text) == "" {
			continue
		}
		switch it.Phase {
		case PhaseFinalAnswer:
			return it.Text, true
		case PhaseCommentary:
		default:
			if text == "" {
				text = it.Text
			}
		}
	}
	return text, false
}

// MarshalJSON writes the item as Codex would.
func (i Item) MarshalJSON() ([]byte, error) {
	if i.Raw != nil {
		return i.Raw, nil
	}
	out := map[string]any{"type": i.Type, "id": i.ID}
	switch i.Type {
	case ItemUserMessage:
		out["clientId"] = orNull(i.ClientID)
		out["content"] = []UserInput{{Type: InputText, Text: i.Text}}
	case ItemAgentMessage:
		out["text"] = i.Text
		out["phase"] = orNull(i.Phase)
	}
	return json.Marshal(out)
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
