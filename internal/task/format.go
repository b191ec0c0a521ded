package task

import (
	"strings"
)

// Format writes t as a task-last file, the layout that needs nobody's trust:
// all headers above `task:`, then the body to the end. It is how files are
// dropped by hand. Values lose their line breaks, as in every writer of this
// format; zero fields are left out, except the tier and the priority.
func Format(t Task) []byte {
	var b strings.Builder
	line := func(key, value string) {
		if value = fold(value); value != "" {
			b.WriteString(key + ": " + value + "\n")
		}
	}
	line("id", t.ID)
	line("timestamp", t.Timestamp)
	line("source", t.Source)
	line("access_tier", string(t.Tier))
	if t.Collaborator && t.Tier == Team {
		line("collaborator", "true")
	}
	line("priority", t.Priority.String())
	line("channel_id", t.ChannelID)
	line("room_name", t.Room)
	line("sender_name", t.Sender)
	line("user_id", t.SenderID)
	line("source_message_id", t.SourceMessageID)
	line("interaction_type", t.Interaction)
	if len(t.Attachments) > 0 {
		line("attachments", formatAttachments(t.Attachments))
	}
	b.WriteString("task: " + strings.TrimFunc(t.Body, IsSpace) + "\n")
	return []byte(b.String())
}

// fold makes a value one line: a line break in it becomes a blank.
func fold(value string) string {
	return clean(strings.NewReplacer("\r\n", " ", "\r", " ", "\n", " ").Replace(value))
}
