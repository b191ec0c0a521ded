package supervisor

import (
	"slices"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// partialLimit bounds what is kept of text that is still being written.
const partialLimit = 64 << 10

// answer gathers what the model says in one turn and picks the text that
// answers. Completed items are authoritative; deltas only show progress.
type answer struct {
	messages []rpc.Item // completed agent messages, in order
	live     map[string]*strings.Builder
	order    []string // ids of live messages, in order of first text
	length   int      // bytes of text seen, for status
}

func newAnswer() *answer { return &answer{live: map[string]*strings.Builder{}} }

func (a *answer) delta(itemID, text string) {
	b := a.live[itemID]
	if b == nil {
		b = &strings.Builder{}
		a.live[itemID] = b
		a.order = append(a.order, itemID)
	}
	a.length += len(text)
	if b.Len()+len(text) <= partialLimit {
		b.WriteString(text)
	}
}

func (a *answer) completed(it rpc.Item) {
	if it.Type != rpc.ItemAgentMessage {
		return
	}
	if a.live[it.ID] == nil {
		a.length += len(it.Text)
	}
	delete(a.live, it.ID)
	a.messages = append(a.messages, it)
}

// final is the answer of a completed turn (codex app-server 0.171.0): the last message marked
// final, else the one in turn/completed, else the last that is not commentary.
// Commentary is never promoted: a turn with nothing else gave no answer.
func (a *answer) final(turn *rpc.Turn) string {
	text, final := rpc.Answer(a.messages)
	if final || turn == nil {
		return text
	}
	if told, _ := rpc.Answer(turn.Items); told != "" {
		return told
	}
	return text
}

// partial is what had been written when a turn was stopped: the message that
// was being written, else the last completed one.
func (a *answer) partial() string {
	for i := len(a.order) - 1; i >= 0; i-- {
		if b := a.live[a.order[i]]; b != nil && strings.TrimSpace(b.String()) != "" {
			return b.String()
		}
	}
	for _, it := range slices.Backward(a.messages) {
		if strings.TrimSpace(it.Text) != "" {
			return it.Text
		}
	}
	return ""
}
