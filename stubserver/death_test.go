package stubserver_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

// dies runs a turn that ends the server and returns what was said until then.
func dies(t *testing.T, home, thread, clientID, text string, env ...string) (methods string) {
	t.Helper()
	c := talk(t, home, env...).hello()
	if thread == "" {
		thread = c.thread(`{"cwd":"/w"}`)
	} else {
		c.must("thread/resume", `{"threadId":%q,"excludeTurns":true}`, thread)
	}
	from := len(c.seen)
	c.ask("turn/start", turnParams(thread, clientID, text))
	c.rest()
	if err := <-c.served; !errors.Is(err, stubserver.ErrEnded) {
		t.Errorf("Serve: %v", err)
	}
	c.served <- nil
	for _, l := range c.seen[from:] {
		switch {
		case l.Method == "" && l.Result != nil:
			methods += "reply "
		case strings.HasPrefix(l.Method, "turn/"), strings.HasPrefix(l.Method, "item/c") && at(l.Params, "item", "type") != "stubGreaseItem":
			methods += l.Method + " "
		}
	}
	return methods
}

func TestServer_Deaths(t *testing.T) {
	for _, tc := range []struct {
		word, said, status, clientID, answer string
	}{
		{"die-before-reply", "", "completed", "task-0/1", "You said: hello"},
		{"die-before-message", "reply turn/started ", "interrupted", "<nil>", "<nil>"},
		{"die", "reply turn/started item/completed ", "interrupted", "task-9/1", "<nil>"},
		{"die-after", "reply turn/started item/completed item/completed ", "completed", "task-9/1", "You said: goodbye"},
		{"die-always", "reply turn/started item/completed ", "interrupted", "task-9/1", "<nil>"},
		{"exit 3", "reply turn/started item/completed ", "interrupted", "task-9/1", "<nil>"},
	} {
		t.Run(tc.word, func(t *testing.T) {
			home := t.TempDir()
			c := talk(t, home).hello()
			id := c.thread(`{"cwd":"/w"}`)
			c.ended(c.startTask(id, "task-0/1", "hello"))
			c.end()
			want(t, "said", dies(t, home, id, "task-9/1", "["+"["+tc.word+"]] goodbye"), tc.said)

			c = talk(t, home).hello()
			list := c.must("thread/turns/list", `{"threadId":%q,"limit":1}`, id)
			want(t, "newest turn", fmt.Sprint(at(list, "data", 0, "status"), " ", at(list, "data", 0, "items", 0, "clientId"), " ", at(list, "data", 0, "items", 1, "text")),
				tc.status+" "+tc.clientID+" "+tc.answer)
			if tc.status == "interrupted" {
				want(t, "its end", at(list, "data", 0, "completedAt"), nil)
			}
			if tc.word == "die-always" {
				return
			}
			// The same task again, whatever its attempt, lives.
			c.must("thread/resume", `{"threadId":%q}`, id)
			status, answer := c.ended(c.startTask(id, "task-9/2", "["+"["+tc.word+"]] goodbye"))
			want(t, "the second time", status+" "+answer, "completed You said: goodbye")
			c.end()
			if tc.word != "exit 3" {
				want(t, "another task", dies(t, home, id, "task-10/1", "["+"["+tc.word+"]] goodbye"), tc.said)
			}
		})
	}
}

func TestServer_DeathsOfAThread(t *testing.T) {
	home := t.TempDir()
	const told = "reply turn/started item/completed "
	want(t, "first turn", dies(t, home, "", "task-1/1", "[[die-twice]]"), told)
	found, err := filepath.Glob(filepath.Join(home, "sessions/*/*/*/*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("rollouts %v, %v", found, err)
	}
	base := strings.TrimSuffix(filepath.Base(found[0]), ".jsonl")
	id := base[len(base)-36:]
	want(t, "second turn", dies(t, home, id, "task-1/2", "go on"), told)
	c := talk(t, home).hello()
	c.must("thread/resume", `{"threadId":%q}`, id)
	_, answer := c.turn(id, "go on")
	want(t, "third turn", answer, "You said: go on")
	c.end()

	// The limit is the word's argument; 0 is none. Without a client id the prompt
	// names the task.
	for range 2 {
		want(t, "die 2", dies(t, home, id, "task-5/1", "[[die 2]]"), told)
	}
	for range 3 {
		want(t, "die 0", dies(t, home, id, "", "[[die 0]]"), told)
	}
	want(t, "by prompt", dies(t, home, id, "", "[[die]] one"), told)
	want(t, "by another prompt", dies(t, home, id, "", "[[die]] two"), told)
	c = talk(t, home).hello()
	c.must("thread/resume", `{"threadId":%q}`, id)
	for client, text := range map[string]string{"task-5/9": "[[die 2]]", "": "[[die]] one"} {
		status, _ := c.ended(c.startTask(id, client, text))
		want(t, text, status, "completed")
	}
}

// A new thread that is cut before its first message is stored was never there.
func TestServer_NeverStored(t *testing.T) {
	home := t.TempDir()
	for _, word := range []string{"die-before-reply", "die-before-message"} {
		dies(t, home, "", "task-1/1", "["+"["+word+"]]")
	}
	if _, err := os.Stat(filepath.Join(home, "sessions")); err == nil {
		t.Error("something was stored")
	}
}

func TestServer_Script(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "script")
	mustWrite(t, file, `{"match":"^weather","do":"[[reply rain]]"}
{"do":"[[reply first]] [[remember ferns]]"}

{"match":"moss$","times":1,"do":"[[reply green]]"}
{"do":"[[empty-once]]"}
`)
	c := talk(t, home, "STUB_SCRIPT="+file).hello()
	id := c.thread(`{"cwd":"/w"}`)
	for _, tc := range [][2]string{
		{"weather?", "rain"},
		{"wet moss", "first"},
		{"wet moss", "green"},
		{"wet moss", ""},
		{"wet moss", "You said: wet moss"},
		{"[[recall]]", "I remember: ferns."},
		{"weather again", "rain"},
	} {
		_, answer := c.turn(id, tc[0])
		want(t, tc[0], answer, tc[1])
	}
	c.end()
	c = talk(t, home, "STUB_SCRIPT="+file).hello() // goes on where it was
	_, answer := c.turn(c.thread(`{"cwd":"/w"}`), "wet moss")
	want(t, "after a restart", answer, "You said: wet moss")
	for text, say := range map[string]string{`{"match":"(","do":""}`: "missing closing", `{"dp":""}`: "unknown field", `x`: "script:1"} {
		mustWrite(t, file, text)
		_, err := stubserver.New(stubserver.Options{Env: []string{"CODEX_HOME=" + home, "STUB_SCRIPT=" + file}})
		if err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v, want %q", text, err, say)
		}
	}
}

func TestServer_Log(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, "log")
	c := talk(t, home, "STUB_LOG="+path).hello()
	id := c.thread(`{"cwd":"/w"}`)
	c.turn(id, "hello")
	turn := c.running(id, "[[stall]]")
	c.must("turn/start", "%s", turnParams(id, "task-1/3", "merged"))
	c.must("turn/interrupt", `{"threadId":%q,"turnId":%q}`, id, turn)
	c.ended(turn)
	dies(t, home, "", "task-2/1", "[[die-before-message]] never seen", "STUB_LOG="+path)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	want(t, "lines", len(lines), 7) // the last two: a process and its thread
	for i, words := range [][]string{
		{`"start":` + fmt.Sprint(os.Getpid())},
		{`"thread":"` + id, `"threadStart":{"cwd":"/w"}`},
		{`"prompt":"hello"`, `"before":0`, `"items":0`, `"clientId":"task-1/1"`, `"ephemeral":false`, `"thread":"` + id, `"sha256":"2cf24dba5fb0a30e`},
		{`"prompt":"[[stall]]"`, `"before":1`, `"items":2`, `"turn":"` + turn},
		{`"prompt":"merged"`, `"merged":true`, `"turn":"` + turn},
	} {
		for _, w := range words {
			if !strings.Contains(lines[i], w) {
				t.Errorf("line %d is %s, want %s in it", i, lines[i], w)
			}
		}
	}
}
