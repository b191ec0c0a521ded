package stubserver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// play is one line of the script file.
type play struct {
	key   string
	match *regexp.Regexp // nil takes any turn
	times int            // 0 is without end
	do    string
}

// readPlays reads a script file; "" is none.
func readPlays(path string) ([]play, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the script: %w", err)
	}
	var plays []play
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		var e struct {
			Match string `json:"match"`
			Times *int   `json:"times"`
			Do    string `json:"do"`
		}
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("read the script %s:%d: %w", path, n, err)
		}
		p := play{key: fmt.Sprintf("script %s %d", path, n), do: e.Do, times: 1}
		if e.Match != "" {
			if p.match, err = regexp.Compile(e.Match); err != nil {
				return nil, fmt.Errorf("read the script %s:%d: %w", path, n, err)
			}
			p.times = 0
		}
		if e.Times != nil {
			p.times = *e.Times
		}
		for w := range parseScript(p.do) {
			if !w.known() {
				return nil, fmt.Errorf("read the script %s:%d: no such word: %s", path, n, w)
			}
		}
		plays = append(plays, p)
	}
	return plays, nil
}

func (w Word) known() bool {
	for _, s := range Scenarios() {
		if s.Word == w {
			return true
		}
	}
	return false
}

// playFor finds the words that the script file has for a message.
func (s *Server) playFor(message string) string {
	for _, p := range s.plays {
		if p.match != nil && !p.match.MatchString(message) {
			continue
		}
		if p.times > 0 && s.count(p.key, p.times) > p.times {
			continue
		}
		return p.do
	}
	return ""
}

// atMost limits what a word does to its first N times for each task, N being the
// word's argument: a task that is retried meets the same words again. The task is
// the client's id without its last part, which numbers attempts, or the prompt.
func (s *Server) atMost(w Word, r *turn) bool {
	task := r.prompt
	if i := strings.LastIndexByte(r.clientID, '/'); i > 0 {
		task = r.clientID[:i]
	}
	n := 1
	if w != Exit {
		n = r.script.number(w, 0, 1)
	}
	return n == 0 || s.count(string(w)+" "+task, n) <= n
}

// count counts to limit+1 what happens across the processes of one CODEX_HOME.
func (s *Server) count(what string, limit int) int {
	sum := sha256.Sum256([]byte(what))
	path := filepath.Join(s.home, "stub-count-"+hex.EncodeToString(sum[:8]))
	raw, err := os.ReadFile(path)
	n := 1
	if err == nil {
		if before, err := strconv.Atoi(string(raw)); err == nil {
			n = before + 1
		}
	}
	if n <= limit {
		if err := os.WriteFile(path, []byte(strconv.Itoa(n)), 0o600); err != nil {
			s.complain("stub: count: %v", err)
		}
	}
	return n
}

func itoa(n int) string { return strconv.Itoa(n) }

// log appends one line to the log file.
func (s *Server) log(v object) {
	path := s.env[envLog]
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		s.complain("stub: log: %v", err)
		return
	}
	defer f.Close()
	if line, err := encode(v); err == nil {
		_, _ = f.Write(line)
	}
}

// turnLine is what the log says of a turn's prompt.
func (s *Server) turnLine(r *turn, merged bool) object {
	sum := sha256.Sum256([]byte(r.prompt))
	line := object{
		"thread": r.thread.id(), "turn": r.id, "clientId": r.clientID, "ephemeral": r.thread.ephemeral, "sha256": hex.EncodeToString(sum[:]),
		"prompt": r.prompt, "before": countItems(r.thread.entries, itemUser), "items": countItems(r.thread.entries, ""),
	}
	if merged {
		line["turn"], line["merged"] = r.thread.running.id, true
	}
	return line
}
