package stubserver_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

// scenarios holds, for every word but those that end the process, what is seen on
// the wire.
func scenarios() map[stubserver.Word]func(*testing.T, *codex, string) {
	answers := func(text, answer string) func(*testing.T, *codex, string) {
		return func(t *testing.T, c *codex, id string) {
			status, got := c.turn(id, text)
			want(t, text, status+" "+got, "completed "+answer)
		}
	}
	fails := func(text, kind string) func(*testing.T, *codex, string) {
		return func(t *testing.T, c *codex, id string) { failed(t, c, id, text, kind) }
	}
	stalls := func(text string, then func(t *testing.T, c *codex, id, turn string)) func(*testing.T, *codex, string) {
		return func(t *testing.T, c *codex, id string) { then(t, c, id, c.running(id, text)) }
	}
	interrupt := func(c *codex, id, turn string) line {
		return c.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
	}
	runs := func(t *testing.T, c *codex, id string) {
		t.Helper()
		want(t, "status", at(c.must("thread/read", `{"threadId":%q}`, id), "thread", "status", "type"), "active")
	}
	return map[stubserver.Word]func(*testing.T, *codex, string){
		stubserver.Remember: answers("[[remember ferns]]", "I will remember: ferns."),
		stubserver.Recall: func(t *testing.T, c *codex, id string) {
			answers("[[recall]]", "I remember nothing.")(t, c, id)
			answers("[[remember ferns]] [[remember wet moss]]", "I will remember: wet moss.")(t, c, id)
			answers("[[recall]]", "I remember: ferns, wet moss.")(t, c, id)
		},
		stubserver.Reply: answers("[[reply exactly\nthis]] not this", "exactly\nthis"),
		stubserver.Big:   answers("[[big 10]]", "xxxxxxxxxx"),
		stubserver.Huge: func(t *testing.T, c *codex, id string) {
			_, answer := c.turn(id, "[[huge 70000]]")
			want(t, "length", len(answer), 70000)
		},
		stubserver.Separators: func(t *testing.T, c *codex, id string) {
			answers("[[separators]]", "one\u2028two\u2029three <&> \\u2028")(t, c, id)
			want(t, "raw on the line", strings.Contains(c.text(), "one\u2028two\u2029three <&> \\\\u2028"), true)
		},
		stubserver.Commentary: func(t *testing.T, c *codex, id string) {
			answers("[[commentary]] hello", "You said: hello")(t, c, id)
			want(t, "phases", phases(c), "[commentary final_answer]")
		},
		stubserver.CommentaryOnly: func(t *testing.T, c *codex, id string) {
			answers("[[commentary-only]]", "Looking into it.")(t, c, id)
			answers("and in every later turn", "Looking into it.")(t, c, id)
			want(t, "phases", phases(c), "[commentary commentary]")
			done := c.seen[len(c.seen)-1].Params
			want(t, "items at the end", len(at(done, "turn", "items").([]any)), 0)
		},
		stubserver.NoPhase: func(t *testing.T, c *codex, id string) {
			answers("[[no-phase]] hello", "You said: hello")(t, c, id)
			want(t, "phases", phases(c), "[<nil>]")
		},
		stubserver.Empty: func(t *testing.T, c *codex, id string) {
			answers("[[empty]]", "")(t, c, id)
			answers("and in every later turn", "")(t, c, id)
		},
		stubserver.EmptyOnce: func(t *testing.T, c *codex, id string) {
			answers("[[empty-once]]", "")(t, c, id)
			answers("[[empty-once]] again", "You said: again")(t, c, id)
		},
		stubserver.Slow: func(t *testing.T, c *codex, id string) {
			began := time.Now()
			answers("[[slow 5 3]] hello", "You said: hello")(t, c, id)
			want(t, "deltas", c.count("item/agentMessage/delta"), 5)
			if took := time.Since(began); took < 15*time.Millisecond {
				t.Errorf("five pauses of 3 ms took %s", took)
			}
		},
		stubserver.Stall: stalls("[[stall]]", func(t *testing.T, c *codex, id, turn string) {
			runs(t, c, id)
			interrupt(c, id, turn)
			status, answer := c.ended(turn)
			want(t, "stalled turn", status+answer, "interrupted")
		}),
		stubserver.StallHard: stalls("[[stall-hard]]", func(t *testing.T, c *codex, id, turn string) {
			for range 2 {
				if l := interrupt(c, id, turn); l.Error != nil {
					t.Errorf("not acknowledged: %s", l.raw)
				}
			}
			runs(t, c, id)
		}),
		stubserver.StallMute: stalls("[[stall-mute]]", func(t *testing.T, c *codex, id, turn string) {
			asked := c.ask("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
			runs(t, c, id) // answered later, so the interrupt never is
			for _, l := range c.seen {
				if string(l.ID) == asked && l.Method == "" {
					t.Errorf("answered %s", l.raw)
				}
			}
		}),
		stubserver.StallRefuse: stalls("[[stall-refuse]]", func(t *testing.T, c *codex, id, turn string) {
			if l := interrupt(c, id, turn); l.Error == nil || l.Error.Code != -32603 {
				t.Errorf("not refused: %s", l.raw)
			}
			runs(t, c, id)
		}),
		stubserver.Late: stalls("[[late 20]]", func(t *testing.T, c *codex, id, turn string) {
			interrupt(c, id, turn)
			status, answer := c.ended(turn)
			want(t, "late turn", status+" "+answer, "completed Late, but done.")
		}),
		stubserver.Lost: func(t *testing.T, c *codex, id string) {
			turn := c.startTurn(id, "[[lost]] hello")
			c.await("the answer", func(l line) bool {
				return l.Method == "item/completed" && l.Params["turnId"] == turn && at(l.Params, "item", "type") == "agentMessage"
			})
			list := c.must("thread/turns/list", `{"threadId":%q}`, id)
			want(t, "stored", fmt.Sprint(at(list, "data", 0, "status"), at(list, "data", 0, "items", 1, "text")), "completedYou said: hello")
			want(t, "completions", c.count("turn/completed"), 0)
		},
		stubserver.Twice: func(t *testing.T, c *codex, id string) {
			answers("[[twice]] hello", "You said: hello")(t, c, id)
			c.must("account/read", `{}`)
			want(t, "completions", c.count("turn/completed"), 2)
		},
		stubserver.SubAgent: func(t *testing.T, c *codex, id string) {
			answers("[[sub-agent]] hello", "You said: hello")(t, c, id)
			var whose []bool
			for _, l := range c.seen {
				if l.Method == "turn/completed" {
					whose = append(whose, l.Params["threadId"] == id)
				}
			}
			want(t, "completions of this thread", whose, "[false true true]")
		},
		stubserver.Approve: func(t *testing.T, c *codex, id string) { approvals(t, c, id) },
		stubserver.Junk: func(t *testing.T, c *codex, id string) {
			answers("[[junk]] hello", "You said: hello")(t, c, id)
			bad := 0
			for _, l := range c.seen {
				if l.Method == "" && l.ID == nil {
					bad++
				}
			}
			want(t, "lines that are no messages", bad, 5)
		},
		stubserver.Retry: func(t *testing.T, c *codex, id string) {
			answers("[[retry 2]] hello", "You said: hello")(t, c, id)
			var retries []any
			for _, l := range c.seen {
				if l.Method == "error" && l.Params["willRetry"] == true {
					retries = append(retries, at(l.Params, "error", "message"))
				}
			}
			want(t, "retries", retries, "[Reconnecting... 1/5 Reconnecting... 2/5]")
		},
		stubserver.Fail: func(t *testing.T, c *codex, id string) {
			fails("[[fail serverOverloaded]]", "serverOverloaded")(t, c, id)
			fails("[[fail httpConnectionFailed 401]]", "map[httpConnectionFailed:map[httpStatusCode:401]]")(t, c, id)
		},
		stubserver.ModelError: func(t *testing.T, c *codex, id string) {
			fails("[[model-error]]", "internalServerError")(t, c, id)
			want(t, "status", at(c.must("thread/read", `{"threadId":%q}`, id), "thread", "status", "type"), "systemError")
			answers("and yet", "You said: and yet")(t, c, id)
		},
		stubserver.Unauthorized: fails("[[unauthorized]]", "unauthorized"),
		stubserver.UsageLimit: func(t *testing.T, c *codex, id string) {
			fails("[[usage-limit]]", "usageLimitExceeded")(t, c, id)
			want(t, "window", fmt.Sprint(window(c)["usedPercent"], " ", window(c)["resetsAt"]), "100 <nil>")
			fails("[[usage-limit 60]]", "usageLimitExceeded")(t, c, id)
			if left := window(c)["resetsAt"].(float64) - float64(time.Now().Unix()); left < 50 || left > 61 {
				t.Errorf("the limit resets in %v s, want 60", left)
			}
		},
		stubserver.UsageLimitOnce: func(t *testing.T, c *codex, id string) {
			fails("[[usage-limit-once 5]]", "usageLimitExceeded")(t, c, id)
			answers("[[usage-limit-once 5]] again", "You said: again")(t, c, id)
		},
		stubserver.ContextWindow: func(t *testing.T, c *codex, id string) {
			answers("[[context-window]] first", "You said: first")(t, c, id)
			fails("[[context-window]]", "contextWindowExceeded")(t, c, id)
			c.must("thread/compact/start", `{"threadId":%q}`, id)
			c.method("turn/completed")
			answers("[[context-window]] again", "You said: again")(t, c, id)
		},
		stubserver.ContextWindowAlways: func(t *testing.T, c *codex, id string) {
			answers("[[context-window-always]] first", "You said: first")(t, c, id)
			c.must("thread/compact/start", `{"threadId":%q}`, id)
			c.method("turn/completed")
			fails("[[context-window-always]]", "contextWindowExceeded")(t, c, id)
		},
	}
}

// deadly words have tests of their own, see death_test.go.
var deadly = map[stubserver.Word]bool{
	stubserver.Die: true, stubserver.DieTwice: true, stubserver.DieAlways: true, stubserver.DieBeforeReply: true,
	stubserver.DieBeforeMessage: true, stubserver.DieAfter: true, stubserver.Exit: true, stubserver.Spawn: true,
}

func TestServer_Scenarios(t *testing.T) {
	proofs := scenarios()
	for _, s := range stubserver.Scenarios() {
		t.Run(string(s.Word), func(t *testing.T) {
			proof := proofs[s.Word]
			if proof == nil {
				if !deadly[s.Word] {
					t.Fatal("nothing proves this word")
				}
				return
			}
			c := talk(t, t.TempDir()).hello()
			proof(t, c, c.thread(`{"cwd":"/w"}`))
			if c.count("stub/grease") < 2 {
				t.Errorf("grease %d times", c.count("stub/grease"))
			}
		})
	}
}

func TestServer_Frame(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	frame := "Task: t\nTier: owner\n\nDo it.\n\n<message-0123456789>\nFrom: [[stall]]\nMessage:\n[[reply two\nlines]]\n</other>\n</message-0123456789>\n\n[[stall]]\n"
	_, answer := c.turn(id, frame)
	want(t, "words of the message alone", answer, "two\nlines")
	_, answer = c.turn(id, strings.ReplaceAll(frame, "[[reply two\nlines]]", "hello"))
	want(t, "text of the message alone", answer, "You said: hello\n</other>")
	_, answer = c.turn(id, "Task: t\nTier: owner\n\nGo on.\n")
	want(t, "a follow-up", answer, "I have finished what was left.")
	_, answer = c.turn(id, "<message-0123456789>\nnot closed")
	want(t, "no frame", answer, "You said: <message-0123456789>\nnot closed")
}

func failed(t *testing.T, c *codex, id, text, kind string) {
	t.Helper()
	status, _ := c.turn(id, text)
	done := c.seen[len(c.seen)-1].Params
	want(t, text, fmt.Sprint(status, " ", at(done, "turn", "error", "codexErrorInfo")), "failed "+kind)
	for i := len(c.seen) - 1; i >= 0; i-- {
		if l := c.seen[i]; l.Method == "error" {
			want(t, "error before it", fmt.Sprint(l.Params["willRetry"], " ", at(l.Params, "error", "codexErrorInfo")), "false "+kind)
			return
		}
	}
	t.Errorf("%s: no error was told", text)
}

func phases(c *codex) (all []any) {
	for _, l := range c.seen {
		if l.Method == "item/completed" && at(l.Params, "item", "type") == "agentMessage" {
			all = append(all, at(l.Params, "item", "phase"))
		}
	}
	return all
}

// window is the last one that was told.
func window(c *codex) (w map[string]any) {
	for _, l := range c.seen {
		if p, ok := at(l.Params, "rateLimits", "primary").(map[string]any); ok {
			w = p
		}
	}
	return w
}

func approvals(t *testing.T, c *codex, id string) {
	for _, tc := range []struct{ method, answer, flag, item, status string }{
		{"item/commandExecution/requestApproval", `"result":{"decision":"decline"}`, "waitingOnApproval", "declined", "completed"},
		{"item/commandExecution/requestApproval", `"result":{"decision":"accept"}`, "waitingOnApproval", "completed", "completed"},
		{"item/commandExecution/requestApproval", `"error":{"code":1,"message":"m"}`, "waitingOnApproval", "failed", "completed"},
		{"item/commandExecution/requestApproval", `"result":{"decision":"cancel"}`, "waitingOnApproval", "declined", "interrupted"},
		{"item/fileChange/requestApproval", `"result":{"decision":"cancel"}`, "waitingOnApproval", "", "interrupted"},
		{"item/fileChange/requestApproval", `"result":{"decision":"decline"}`, "waitingOnApproval", "", "completed"},
		{"item/permissions/requestApproval", `"result":{"permissions":{}}`, "waitingOnApproval", "", "completed"},
		{"item/tool/requestUserInput", `"result":{"answers":{}}`, "waitingOnUserInput", "", "completed"},
		{"mcpServer/elicitation/request", `"result":{"action":"decline"}`, "waitingOnUserInput", "", "completed"},
		{"item/tool/call", `"result":{"success":false}`, "", "", "completed"},
		{"account/chatgptAuthTokens/refresh", `"error":{"code":-32601,"message":"no"}`, "", "", "completed"},
		{"attestation/generate", `"error":{"code":-32601,"message":"no"}`, "", "", "completed"},
		{"execCommandApproval", `"result":{"decision":"abort"}`, "waitingOnApproval", "", "completed"},
		{"applyPatchApproval", `"result":{"decision":"abort"}`, "waitingOnApproval", "", "completed"},
		{"something/new", `"error":{"code":-32601,"message":"no"}`, "", "", "completed"},
	} {
		turn := c.startTurn(id, "[[approve "+tc.method+"]]")
		ask := c.await("the request", func(l line) bool { return l.Method == tc.method && l.ID != nil })
		status := at(c.must("thread/read", `{"threadId":%q}`, id), "thread", "status")
		flag, _ := at(status, "activeFlags", 0).(string)
		want(t, tc.method+" waits for", flag, tc.flag)
		c.send(fmt.Sprintf(`{"id":%s,%s}`, ask.ID, tc.answer))
		c.send(fmt.Sprintf(`{"id":%s,%s}`, ask.ID, tc.answer)) // a late one does no harm
		resolved, item := false, ""
		from := len(c.seen)
		got, answer := c.ended(turn)
		for _, l := range c.seen[from:] {
			resolved = resolved || l.Method == "serverRequest/resolved" && fmt.Sprint(l.Params["requestId"]) == string(ask.ID)
			if at(l.Params, "item", "type") == "commandExecution" {
				item, _ = at(l.Params, "item", "status").(string)
			}
		}
		_, body, _ := strings.Cut(tc.answer, ":")
		if tc.status == "interrupted" {
			body = ""
		} else {
			body = "It was answered: " + body
		}
		want(t, tc.method+" "+tc.answer, fmt.Sprint(got, answer, item, resolved), fmt.Sprint(tc.status, body, tc.item, true))
	}
	turn := c.startTurn(id, "[[approve item/fileChange/requestApproval]]")
	ask := c.await("the request", func(l line) bool { return l.Method == "item/fileChange/requestApproval" && l.Params["turnId"] == turn })
	c.must("turn/interrupt", `{"threadId":%q,"turnId":%q}`, id, turn)
	c.await("its end", func(l line) bool {
		return l.Method == "serverRequest/resolved" && fmt.Sprint(l.Params["requestId"]) == string(ask.ID)
	})
}
