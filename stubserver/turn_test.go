package stubserver_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestServer_TurnOrder(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	from := len(c.seen)
	c.turn(id, "hello")
	var order []string
	for _, l := range c.seen[from:] {
		name := l.Method
		if kind, ok := at(l.Params, "item", "type").(string); ok {
			name += " " + kind
		}
		if state, ok := at(l.Params, "status", "type").(string); ok {
			name += " " + state
		}
		switch {
		case l.Method == "":
			name = "reply"
		case strings.HasPrefix(l.Method, "stub/"), strings.Contains(name, "Grease"), l.Method == "thread/started":
			continue
		}
		order = append(order, name)
	}
	want(t, "order", strings.Join(order, "\n"), strings.Join([]string{
		"warning", "reply", "thread/status/changed active", "turn/started", "item/started userMessage", "item/completed userMessage",
		"item/started agentMessage", "item/agentMessage/delta", "item/agentMessage/delta", "item/completed agentMessage",
		"thread/tokenUsage/updated", "account/rateLimits/updated", "thread/readState/changed", "thread/status/changed idle", "turn/completed",
	}, "\n"))
	done := c.seen[len(c.seen)-1].Params
	want(t, "final items", fmt.Sprint(at(done, "turn", "itemsView"), " ", at(done, "turn", "items", 0, "text"), " ", at(done, "turn", "items", 0, "phase")),
		"summary You said: hello final_answer")
	for _, l := range c.seen {
		if l.Method != "" && l.Method != "stub/grease" && !strings.Contains(l.raw, `},"emittedAtMs":`) {
			t.Errorf("no time on %s", l.raw)
		}
	}
}

func TestServer_TurnStartRefuses(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	c.refused("turn/start", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "Invalid request: missing field `input`")
	c.refused("turn/start", fmt.Sprintf(`{"threadId":%q,"input":[{"type":"song"}]}`, id), -32600,
		"Invalid request: unknown variant `song`, expected one of `text`, `image`, `localImage`, `audio`, `localAudio`, `skill`, `mention`")
	l := c.call("turn/start", turnParams(id, "", strings.Repeat("é", 1<<20+1)))
	if l.Error == nil || l.Error.Code != -32602 || l.Error.Data["input_error_code"] != "input_too_large" || l.Error.Data["actual_chars"] != float64(1<<20+1) {
		t.Errorf("too long: %.200s", l.raw)
	}
	status, answer := c.turn(id, strings.Repeat("é", 1<<20))
	want(t, "just not too long", fmt.Sprint(status, len(answer)), fmt.Sprint("completed", 2<<20+len("You said: ")))
	c.must("turn/start", `{"threadId":%q,"input":[{"type":"localImage","path":"/p.png"}]}`, id)
	started := c.await("the picture", func(l line) bool { return at(l.Params, "item", "content", 0, "type") == "localImage" })
	want(t, "no client id", at(started.Params, "item", "clientId"), nil)
	c.method("turn/completed")
}

func TestServer_Interrupt(t *testing.T) {
	c := talk(t, t.TempDir(), "STUB_START_MS=20").hello()
	id := c.thread(`{"cwd":"/w"}`)
	stop := func(turn string) line {
		t.Helper()
		return c.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, turn))
	}
	refused := func(l line, text string) {
		t.Helper()
		if l.Error == nil || l.Error.Code != -32600 || l.Error.Message != text {
			t.Errorf("answered %s, want %q", l.raw, text)
		}
	}
	c.refused("turn/interrupt", fmt.Sprintf(`{"threadId":%q}`, id), -32600, "Invalid request: missing field `turnId`")
	c.refused("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":"x"}`, nobody), -32600, "thread not found: "+nobody)
	refused(stop("x"), "no active turn to interrupt")

	early := c.startTurn(id, "[[stall]]")
	refused(stop(early), "no active turn to interrupt")
	c.method("turn/started")
	refused(stop("other"), "expected active turn id other but found "+early)
	merged := c.must("turn/start", "%s", turnParams(id, "task-1/2", "more"))
	want(t, "a second turn/start", at(merged, "turn", "id"), early)
	if l := stop(early); string(l.raw[strings.Index(l.raw, `"result"`):]) != `"result":{},"stubGrease":1}`+"\n" {
		t.Errorf("interrupt answered %s", l.raw)
	}
	status, _ := c.ended(early)
	want(t, "stalled turn", status, "interrupted")
	refused(stop(early), "no active turn to interrupt")

	unborn := c.startTurn(id, "hello")
	stop("") // whatever runs, also before it has started
	stop("")
	status, answer := c.ended(unborn)
	want(t, "turn stopped before its start", status+answer, "interrupted")

	slow := c.startTurn(id, "[[slow 1000]]")
	c.await("a delta", func(l line) bool { return l.Method == "item/agentMessage/delta" && l.Params["turnId"] == slow })
	stop(slow)
	status, answer = c.ended(slow)
	want(t, "slow turn", status+answer, "interrupted")
	_, answer = c.turn(id, "hello")
	want(t, "afterwards", answer, "You said: hello")
	list := c.must("thread/turns/list", `{"threadId":%q,"itemsView":"full"}`, id)
	var history []string
	for i := range list["data"].([]any) {
		history = append(history, fmt.Sprint(at(list, "data", i, "status"), len(at(list, "data", i, "items").([]any))))
	}
	// Text that was being streamed is lost.
	want(t, "history", history, "[completed2 interrupted1 interrupted0 interrupted1]")

	old := talk(t, t.TempDir(), "STUB_VERSION=0.168.0").hello()
	id = old.thread(`{"cwd":"/w"}`)
	first := old.startTurn(id, "hello")
	old.ended(first)
	second := old.startTurn(id, "[[stall]]")
	l := old.call("turn/interrupt", fmt.Sprintf(`{"threadId":%q,"turnId":%q}`, id, second))
	refused(l, "expected active turn id "+second+" but found "+first)
}

func TestServer_Compact(t *testing.T) {
	c := talk(t, t.TempDir()).hello()
	id := c.thread(`{"cwd":"/w"}`)
	turn := c.running(id, "[[slow 3]]")
	c.must("thread/compact/start", `{"threadId":%q}`, id) // waits for the turn
	status, _ := c.ended(turn)
	want(t, "turn", status, "completed")
	done := c.await("the compaction", func(l line) bool {
		return l.Method == "item/completed" && at(l.Params, "item", "type") == "contextCompaction"
	})
	c.ended(done.Params["turnId"].(string))
	want(t, "turns", len(c.must("thread/turns/list", `{"threadId":%q}`, id)["data"].([]any)), 2)
}

func TestServer_Paging(t *testing.T) {
	home := t.TempDir()
	c := talk(t, home).hello()
	id := c.thread(`{"cwd":"/w"}`)
	for i := range 5 {
		c.ended(c.startTask(id, fmt.Sprintf("task-%d/1", i+1), "[[commentary]] hello"))
	}
	other := talk(t, home).hello() // reads without loading
	page := func(params string) (ids string, list map[string]any) {
		t.Helper()
		list = other.must("thread/turns/list", `{"threadId":%q%s}`, id, params)
		for i := range list["data"].([]any) {
			user := at(list, "data", i, "items", 0, "clientId")
			ids += fmt.Sprint(user, " ")
		}
		return ids, list
	}
	ids, list := page(`,"limit":2`)
	want(t, "first page", ids, "task-5/1 task-4/1 ")
	ids, next := page(fmt.Sprintf(`,"limit":2,"cursor":%q`, list["nextCursor"]))
	want(t, "second page", ids, "task-3/1 task-2/1 ")
	ids, last := page(fmt.Sprintf(`,"limit":2,"cursor":%q`, next["nextCursor"]))
	want(t, "last page", ids, "task-1/1 ")
	want(t, "after the last", last["nextCursor"], nil)
	ids, _ = page(fmt.Sprintf(`,"cursor":%q`, next["backwardsCursor"]))
	want(t, "from an anchor", ids, "task-3/1 task-2/1 task-1/1 ")
	ids, _ = page(fmt.Sprintf(`,"sortDirection":"asc","cursor":%q,"limit":1`, list["nextCursor"]))
	want(t, "newer ones", ids, "task-5/1 ")
	for view, n := range map[string]string{"notLoaded": "0", "summary": "2 final_answer", "full": "3 commentary"} {
		list := other.must("thread/turns/list", `{"threadId":%q,"limit":1,"itemsView":%q}`, id, view)
		got := fmt.Sprint(len(at(list, "data", 0, "items").([]any)))
		if phase := at(list, "data", 0, "items", 1, "phase"); phase != nil {
			got += fmt.Sprint(" ", phase)
		}
		want(t, view, got, n)
	}
	for _, cursor := range []string{"nonsense", fmt.Sprintf(`{"requestedThreadId":%q,"rolloutOrdinal":1}`, nobody)} {
		other.refused("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"cursor":%q}`, id, cursor), -32600, "invalid cursor: "+cursor)
	}
	other.refused("thread/turns/list", fmt.Sprintf(`{"threadId":%q,"itemsView":"all"}`, id), -32600, "Invalid request: unknown variant `all`, expected one of `notLoaded`, `summary`, `full`")
	read := other.must("thread/read", `{"threadId":%q,"includeTurns":true}`, id)
	want(t, "thread/read", at(read, "thread", "turns", 4, "items", 2, "text"), "You said: hello")
	other.must("account/read", `{}`)
	want(t, "told that this is old", other.count("deprecationNotice"), 1)
}
