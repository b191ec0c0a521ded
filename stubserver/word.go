package stubserver

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Word is one thing that a turn can be told to do.
type Word string

// All words. [Scenarios] says what each does.
const (
	Remember            Word = "remember"
	Recall              Word = "recall"
	Reply               Word = "reply"
	Big                 Word = "big"
	Huge                Word = "huge"
	Separators          Word = "separators"
	Commentary          Word = "commentary"
	CommentaryOnly      Word = "commentary-only"
	NoPhase             Word = "no-phase"
	Empty               Word = "empty"
	EmptyOnce           Word = "empty-once"
	Slow                Word = "slow"
	Stall               Word = "stall"
	StallHard           Word = "stall-hard"
	StallMute           Word = "stall-mute"
	StallRefuse         Word = "stall-refuse"
	Late                Word = "late"
	Die                 Word = "die"
	DieTwice            Word = "die-twice"
	DieAlways           Word = "die-always"
	DieBeforeReply      Word = "die-before-reply"
	DieBeforeMessage    Word = "die-before-message"
	DieAfter            Word = "die-after"
	Exit                Word = "exit"
	Lost                Word = "lost"
	Twice               Word = "twice"
	SubAgent            Word = "sub-agent"
	Approve             Word = "approve"
	Junk                Word = "junk"
	Spawn               Word = "spawn"
	Retry               Word = "retry"
	Fail                Word = "fail"
	ModelError          Word = "model-error"
	Unauthorized        Word = "unauthorized"
	UsageLimit          Word = "usage-limit"
	UsageLimitOnce      Word = "usage-limit-once"
	ContextWindow       Word = "context-window"
	ContextWindowAlways Word = "context-window-always"
)

// Scenario is one word with what it does. A sticky one counts in every later
// turn of its thread too.
type Scenario struct {
	Word   Word
	Args   string
	Does   string
	Sticky bool
}

// Scenarios is the one list of words.
func Scenarios() []Scenario {
	return []Scenario{
		{Word: Remember, Args: "X", Does: "acknowledges X, to be recalled on the same thread"},
		{Word: Recall, Does: "answers with everything the thread was asked to remember"},
		{Word: Reply, Args: "TEXT", Does: "answers exactly TEXT"},
		{Word: Big, Args: "N", Does: "answers with N bytes"},
		{Word: Huge, Args: "N", Does: "the same"},
		{Word: Separators, Does: "answers with U+2028 and U+2029, raw on the line as Codex sends them"},
		{Word: Commentary, Does: "says a commentary message before the final answer"},
		{Word: CommentaryOnly, Does: "says nothing but commentary", Sticky: true},
		{Word: NoPhase, Does: "the final answer names no phase"},
		{Word: Empty, Does: "completes without a message", Sticky: true},
		{Word: EmptyOnce, Does: "completes without a message, the first time on a thread"},
		{Word: Slow, Args: "N [MS]", Does: "answers in N pieces, MS apart (STUB_STEP_MS)"},
		{Word: Stall, Does: "says nothing until it is interrupted"},
		{Word: StallHard, Does: "acknowledges an interrupt and does not stop"},
		{Word: StallMute, Does: "never answers an interrupt"},
		{Word: StallRefuse, Does: "refuses every interrupt and does not stop"},
		{Word: Late, Args: "MS", Does: "stalls; completes MS after the interrupt instead of stopping"},
		{Word: Die, Args: "[N]", Does: "ends the process by SIGKILL in mid-turn, the user message being stored; the first N times for each task (1)"},
		{Word: DieTwice, Does: "dies so in the first two turns of the thread that have it", Sticky: true},
		{Word: DieAlways, Does: "dies so in every turn of the thread", Sticky: true},
		{Word: DieBeforeReply, Args: "[N]", Does: "dies before turn/start is answered; the first N times for each task (1)"},
		{Word: DieBeforeMessage, Args: "[N]", Does: "dies after turn/started, before the user message is stored; the first N times for each task (1)"},
		{Word: DieAfter, Args: "[N]", Does: "dies when the completed turn is stored, before that is told; the first N times for each task (1)"},
		{Word: Exit, Args: "STATUS", Does: "ends the process in mid-turn with this status, once for each task"},
		{Word: Lost, Does: "completes, but never says so"},
		{Word: Twice, Does: "says twice that it completed"},
		{Word: SubAgent, Does: "turns of another thread, and another turn of this one, complete in the middle"},
		{Word: Approve, Args: "METHOD", Does: "asks the client by METHOD and answers with what it said"},
		{Word: Junk, Does: "writes lines that are no messages"},
		{Word: Spawn, Does: "leaves a process (sleep 60) in a session of its own"},
		{Word: Retry, Args: "N", Does: "N times an error that will be retried, then the answer"},
		{Word: Fail, Args: "KIND [HTTP]", Does: "fails with this codexErrorInfo"},
		{Word: ModelError, Does: "fails: internalServerError"},
		{Word: Unauthorized, Does: "fails: unauthorized"},
		{Word: UsageLimit, Args: "[S]", Does: "fails: usageLimitExceeded, resets in S seconds (not told without)"},
		{Word: UsageLimitOnce, Args: "[S]", Does: "fails so the first time on a thread"},
		{Word: ContextWindow, Does: "fails: contextWindowExceeded, on a thread that is not new, until it is compacted"},
		{Word: ContextWindowAlways, Does: "fails so on every thread that is not new"},
	}
}

var wordPattern = regexp.MustCompile(`(?s)\[\[([a-z][a-z-]*)(?:[ \t\n](.*?))?\]\]`)

// script is what one turn is asked for.
type script map[Word]string

func parseScript(text string) script {
	s := script{}
	for _, m := range wordPattern.FindAllStringSubmatch(text, -1) {
		s[Word(m[1])] = strings.TrimSpace(m[2])
	}
	return s
}

func (s script) has(w Word) bool { _, ok := s[w]; return ok }

// number is the i-th argument of a word as a number.
func (s script) number(w Word, i, otherwise int) int {
	fields := strings.Fields(s[w])
	if i >= len(fields) {
		return otherwise
	}
	n, err := strconv.Atoi(fields[i])
	if err != nil {
		return otherwise
	}
	return n
}

func (s script) millis(w Word, i int, otherwise time.Duration) time.Duration {
	return time.Duration(s.number(w, i, int(otherwise.Milliseconds()))) * time.Millisecond
}

// arguments collects what stands behind one word in many texts.
func arguments(texts []string, w Word) []string {
	var all []string
	for _, text := range texts {
		for _, m := range wordPattern.FindAllStringSubmatch(text, -1) {
			if Word(m[1]) == w {
				all = append(all, strings.TrimSpace(m[2]))
			}
		}
	}
	return all
}

var openingTag = regexp.MustCompile(`(?m)^<([a-z0-9-]{8,80})>$`)

// message is what stands inside a prompt's frame. A follow-up, which has the
// frame's head alone, holds none; any other prompt without a frame is all message.
func message(prompt string) string {
	open := openingTag.FindStringSubmatchIndex(prompt)
	if open == nil {
		if strings.HasPrefix(prompt, "Task: ") {
			return ""
		}
		return strings.TrimSpace(prompt)
	}
	text, _, closed := strings.Cut(prompt[open[1]:], "\n</"+prompt[open[2]:open[3]]+">")
	_, text, found := strings.Cut(text, "\nMessage:\n")
	if !closed || !found {
		return strings.TrimSpace(prompt)
	}
	return strings.TrimSpace(text)
}

// plain is a message without its words.
func plain(message string) string {
	return strings.TrimSpace(wordPattern.ReplaceAllString(message, ""))
}
