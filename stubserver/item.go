package stubserver

import (
	"encoding/json"
	"strings"
)

// Types of items that are played.
const (
	itemUser       = "userMessage"
	itemAgent      = "agentMessage"
	itemCommand    = "commandExecution"
	itemCompaction = "contextCompaction"
)

// Phases of an agent message.
const (
	phaseCommentary = "commentary"
	phaseFinal      = "final_answer"
)

// item is one step of a turn, as it is stored.
type item struct {
	Type      string   `json:"type"`
	ID        string   `json:"id"`
	ClientID  string   `json:"clientId,omitempty"`
	Content   []object `json:"content,omitempty"` // of a user message
	Text      string   `json:"text,omitempty"`
	Phase     string   `json:"phase,omitempty"`
	Cwd       string   `json:"cwd,omitempty"`
	Status    string   `json:"status,omitempty"`
	Started   int64    `json:"startedAtMs,omitempty"`
	Completed int64    `json:"completedAtMs,omitempty"`
}

func decodeLine(line []byte, v any) error { return json.Unmarshal(line, v) }

// text is all text of a user message.
func (it item) text() string {
	var parts []string
	for _, c := range it.Content {
		if c["type"] == "text" {
			text, _ := c["text"].(string)
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// wire is the item as replies and events show it.
func (it item) wire() object {
	var completed any
	if it.Completed > 0 {
		completed = it.Completed
	}
	w := object{"type": it.Type, "id": it.ID, "startedAtMs": it.Started, "completedAtMs": completed, "stubGrease": false}
	switch it.Type {
	case itemUser:
		w["clientId"], w["content"] = orNull(it.ClientID), it.Content
	case itemAgent:
		w["text"], w["phase"] = it.Text, orNull(it.Phase)
		w["moderation"], w["memoryCitation"], w["delivery"], w["questions"] = nil, nil, nil, nil
	case itemCommand:
		w["command"], w["cwd"], w["status"], w["source"] = it.Text, it.Cwd, it.Status, "agent"
		w["commandActions"] = []object{{"type": "unknown", "command": it.Text}}
		for _, k := range []string{"processId", "aggregatedOutput", "exitCode", "durationMs"} {
			w[k] = nil
		}
	}
	return w
}
