package stubserver

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Scenario is one word that a prompt may hold: [[word]] or [[word ARGUMENTS]].
type Scenario struct {
	Word, Args, Does string
}

// Scenarios lists the words, for people.
func Scenarios() []Scenario {
	return []Scenario{
		{"remember", "X", "acknowledges X, to be recalled on the same thread"},
		{"recall", "", "answers with everything the thread was asked to remember"},
		{"reply", "TEXT", "answers exactly TEXT"},
		{"commentary", "", "says a commentary message before the final answer"},
		{"commentary-only", "", "says nothing but commentary, in every turn of the thread from here on"},
		{"empty", "", "completes without a message, in every turn of the thread from here on"},
		{"empty-once", "", "completes without a message, the first time on a thread"},
		{"slow", "N", "answers in N pieces"},
		{"huge", "N", "answers with N bytes"},
		{"stall", "", "says nothing until it is interrupted"},
		{"stall-hard", "", "acknowledges an interrupt and does not stop"},
		{"stall-mute", "", "never answers an interrupt"},
		{"stall-refuse", "", "refuses every interrupt and does not stop"},
		{"late", "MS", "stalls; completes MS after the interrupt instead of stopping"},
		{"die", "", "ends the process (SIGKILL) in mid-turn"},
		{"die-twice", "", "does so in the first two turns of the thread"},
		{"die-always", "", "does so in every turn of the thread"},
		{"die-before-reply", "", "ends the process before turn/start is answered, once for each CODEX_HOME"},
		{"die-after", "", "ends the process when the turn is stored, before its completion is told, once for each CODEX_HOME"},
		{"lost", "", "completes, but never says so"},
		{"twice", "", "says twice that it completed"},
		{"sub-agent", "", "another thread's turn completes in the middle"},
		{"approve", "METHOD", "asks for approval by METHOD and tells the answer it got"},
		{"junk", "", "writes lines that are no messages"},
		{"spawn", "", "leaves a process in a session of its own"},
		{"model-error", "", "fails: internalServerError"},
		{"unauthorized", "", "fails: unauthorized"},
		{"usage-limit", "S", "fails: usageLimitExceeded, resets in S seconds (none = not told)"},
		{"usage-limit-once", "S", "fails so the first time on a thread"},
		{"context-window", "", "fails: contextWindowExceeded, until the thread is compacted"},
		{"context-window-always", "", "fails so on every thread that is not new"},
	}
}

// Env lists the environment variables that change the server as a whole.
func Env() []Scenario {
	return []Scenario{
		{"STUB_LOG", "FILE", "appends a JSON line for each start and each prompt that the model saw"},
		{"STUB_STEP_MS", "N", "pause between pieces of a slow answer (25)"},
		{"STUB_INIT_MS", "N", "pause before initialize is answered"},
		{"STUB_MUTE", "1", "answers nothing at all"},
		{"STUB_OVERLOAD", "N", "the first N requests after initialize get -32001"},
		{"STUB_NO_LOGIN", "1", "no account, until auth.json lies in CODEX_HOME"},
		{"STUB_VERSION", "X.Y.Z", "the version it claims"},
		{"STUB_STDERR", "N", "writes N bytes to stderr at the start"},
	}
}

var wordPattern = regexp.MustCompile(`\[\[([a-z-]+)(?: ([^\]]*))?\]\]`)

// script is what a prompt asks for.
type script map[string]string

func parseScript(prompt string) script {
	s := script{}
	for _, m := range wordPattern.FindAllStringSubmatch(prompt, -1) {
		s[m[1]] = m[2]
	}
	return s
}

func (s script) has(word string) bool { _, ok := s[word]; return ok }

func (s script) number(word string) int {
	n, err := strconv.Atoi(strings.TrimSpace(s[word]))
	if err != nil {
		return 0
	}
	return n
}

func (s script) millis(word string) time.Duration {
	return time.Duration(s.number(word)) * time.Millisecond
}

// words collects the arguments of one word from many prompts.
func words(prompts []string, word string) []string {
	var all []string
	for _, p := range prompts {
		for _, m := range wordPattern.FindAllStringSubmatch(p, -1) {
			if m[1] == word {
				all = append(all, m[2])
			}
		}
	}
	return all
}

// message is what stands inside the prompt's frame, without the stub's words.
func message(prompt string) string {
	_, text, framed := strings.Cut(prompt, "\nMessage:\n")
	if !framed {
		if strings.HasPrefix(prompt, "Task: ") {
			return "" // a follow-up holds no message
		}
		text = prompt
	} else if i := strings.Index(text, "\n</"); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSpace(wordPattern.ReplaceAllString(text, ""))
}
