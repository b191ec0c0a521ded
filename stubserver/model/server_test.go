package model_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

func mustNew(tb testing.TB, opts model.Options) *model.Server {
	tb.Helper()
	srv, err := model.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if err := srv.Close(); err != nil {
			tb.Error(err)
		}
	})
	return srv
}

// event is one server-sent event.
type event struct {
	kind string
	data map[string]any
}

func (e event) item() map[string]any {
	item, _ := e.data["item"].(map[string]any)
	return item
}

func user(text string) any {
	return map[string]any{"type": "message", "role": "user", "content": []any{map[string]any{"type": "input_text", "text": text}}}
}

func output(text any) any {
	return map[string]any{"type": "function_call_output", "call_id": "c", "output": text}
}

func post(tb testing.TB, ctx context.Context, srv *model.Server, body any) (*http.Response, error) {
	tb.Helper()
	b, ok := body.([]byte)
	if !ok {
		var err error
		if b, err = json.Marshal(body); err != nil {
			tb.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+"/responses", bytes.NewReader(b))
	if err != nil {
		tb.Fatal(err)
	}
	return http.DefaultClient.Do(req)
}

// ask sends items and returns the events, or the status and body of a refusal.
func ask(tb testing.TB, srv *model.Server, items ...any) ([]event, int, string) {
	tb.Helper()
	resp, err := post(tb, context.Background(), srv, map[string]any{"model": "m", "input": items})
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode, string(text)
	}
	return events(tb, string(text)), resp.StatusCode, ""
}

func events(tb testing.TB, text string) []event {
	tb.Helper()
	var list []event
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		kind, data, _ := strings.Cut(block, "\n")
		e := event{kind: strings.TrimPrefix(kind, "event: ")}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(data, "data: ")), &e.data); err != nil {
			tb.Fatalf("%v in %q", err, block)
		}
		if e.data["type"] != e.kind {
			tb.Errorf("event %s has type %v", e.kind, e.data["type"])
		}
		list = append(list, e)
	}
	return list
}

// said is the text of the last message, with its phase.
func said(list []event) (text, phase string) {
	for _, e := range list {
		if e.kind == "response.output_item.done" && e.item()["type"] == "message" {
			part := e.item()["content"].([]any)[0].(map[string]any)
			text, phase = part["text"].(string), e.item()["phase"].(string)
		}
	}
	return text, phase
}

func kinds(list []event) string {
	var names []string
	for _, e := range list {
		names = append(names, strings.TrimPrefix(e.kind, "response."))
	}
	return strings.Join(names, " ")
}

func TestServer_PlainAnswer(t *testing.T) {
	srv := mustNew(t, model.Options{})
	list, _, _ := ask(t, srv, user("hello there"))
	if got := kinds(list); got != "created output_item.added output_text.delta output_item.done completed" {
		t.Errorf("events %s", got)
	}
	if text, phase := said(list); text != "You said: hello there" || phase != "final_answer" {
		t.Errorf("%q %q", text, phase)
	}
	usage := list[len(list)-1].data["response"].(map[string]any)["usage"].(map[string]any)
	if usage["total_tokens"].(float64) != usage["input_tokens"].(float64)+usage["output_tokens"].(float64) || usage["total_tokens"].(float64) < 5 {
		t.Errorf("usage %v", usage)
	}
	list, _, _ = ask(t, srv, user(strings.Repeat("é", 5000)))
	if text, _ := said(list); len([]rune(text)) > 4100 || !strings.HasSuffix(text, "[...]") {
		t.Errorf("echo of %d characters", len([]rune(text)))
	}
}

func TestServer_Words(t *testing.T) {
	srv := mustNew(t, model.Options{SlowStep: time.Millisecond})
	for name, tc := range map[string]struct {
		items []any
		want  string
	}{
		"remember":          {[]any{user("[[remember red]] and [[remember blue]]")}, "I will remember red.\nI will remember blue."},
		"recall":            {[]any{user("[[remember red]]"), user("x [[remember\nblue]]"), user("[[recall]]")}, "I remember: red, blue."},
		"recall nothing":    {[]any{user("[[recall]]")}, "I remember nothing."},
		"assistants":        {[]any{map[string]any{"role": "assistant", "content": "[[remember red]]"}, user("[[recall]]")}, "I remember nothing."},
		"reply":             {[]any{user("[[reply just this]] not that")}, "just this"},
		"big":               {[]any{user("[[big 7]]")}, "xxxxxxx"},
		"slow":              {[]any{user("[[slow 3]] abc")}, "You said: [[slow 3]] abc"},
		"unknown word":      {[]any{user("[[frobnicate]]")}, "You said: [[frobnicate]]"},
		"compaction":        {[]any{user("[[remember red]]"), user("You are performing a CONTEXT CHECKPOINT COMPACTION.")}, "Summary of the conversation. [[remember red]] "},
		"output":            {[]any{user("[[sh ls]]"), output("a.txt")}, "Output:\na.txt"},
		"output parts":      {[]any{user("[[sh ls]]"), output([]any{map[string]any{"type": "input_text", "text": "p"}})}, "Output:\np"},
		"after an old tool": {[]any{user("[[sh ls]]"), output("a.txt"), user("hi")}, "You said: hi"},
		"no message":        {nil, "You said: "},
		"follow-up":         {[]any{user("Task: task-1\nTier: owner\n\nYour turn was cut off.")}, "I have finished what was left."},
	} {
		list, _, _ := ask(t, srv, tc.items...)
		if got, _ := said(list); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	list, _, _ := ask(t, srv, user("[[slow 4]] é"))
	if n := strings.Count(kinds(list), "delta"); n != 4 {
		t.Errorf("%d pieces", n)
	}
	list, _, _ = ask(t, srv, user("[[slow 9]][[reply ab]]"))
	if n := strings.Count(kinds(list), "delta"); n != 2 {
		t.Errorf("two characters in %d pieces", n)
	}
	list, _, _ = ask(t, srv, user("[[commentary]] hi"))
	if text, phase := said(list); list[1].item()["phase"] != "commentary" || phase != "final_answer" || text != "You said: [[commentary]] hi" {
		t.Errorf("commentary: %s", kinds(list))
	}
	list, _, _ = ask(t, srv, user("[[cut]] something long"))
	if got := kinds(list); strings.Contains(got, "completed") || strings.Contains(got, "done") || !strings.Contains(got, "delta") {
		t.Errorf("cut: %s", got)
	}
}

func TestServer_Tools(t *testing.T) {
	srv := mustNew(t, model.Options{})
	call := func(tools []string, items ...any) map[string]any {
		t.Helper()
		var offered []any
		for _, name := range tools {
			offered = append(offered, map[string]any{"type": "function", "name": name})
		}
		resp, err := post(t, context.Background(), srv, map[string]any{"input": items, "tools": offered})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events(t, string(text)) {
			if e.kind == "response.output_item.done" {
				return e.item()
			}
		}
		return nil
	}
	two := user(`[[sh echo "1"]] [[view /a b.png]] [[reply done]]`)
	if got := call(nil, two); got["name"] != "exec_command" || got["arguments"] != `{"cmd":"echo \"1\""}` || got["type"] != "function_call" {
		t.Errorf("first: %v", got)
	}
	if got := call(nil, two, output("1")); got["name"] != "view_image" || got["arguments"] != `{"path":"/a b.png"}` {
		t.Errorf("second: %v", got)
	}
	if got := call(nil, two, output("1"), output("2")); got["type"] != "message" {
		t.Errorf("third: %v", got)
	}
	if got := call([]string{"apply_patch"}, user("[[patch *** Begin\nx]]")); got["type"] != "custom_tool_call" || got["input"] != "*** Begin\nx" {
		t.Errorf("patch tool: %v", got)
	}
	if got := call(nil, user("[[patch *** Begin\nx]]")); got["name"] != "exec_command" || got["arguments"] != `{"cmd":"apply_patch <<'END_OF_PATCH'\n*** Begin\nx\nEND_OF_PATCH"}` {
		t.Errorf("patch command: %v", got)
	}
	if got := call(nil, user(`[[tool spawn {"a":[1]}]]`)); got["name"] != "spawn" || got["arguments"] != `{"a":[1]}` {
		t.Errorf("any tool: %v", got)
	}
	if got := call(nil, user(`[[tool spawn]]`)); got["arguments"] != `{}` {
		t.Errorf("no arguments: %v", got)
	}
}

func TestServer_Failures(t *testing.T) {
	srv := mustNew(t, model.Options{})
	for _, tc := range []struct {
		say    string
		status int
		body   string
	}{
		{"[[http 429 slow down]]", 429, `{"error":{"message":"slow down"}}`},
		{`[[http 503 {"a":1}]]`, 503, `{"a":1}`},
		{"[[http]]", 500, `{"error":{"message":""}}`},
		{"[[http 200 fine]]", 500, `{"error":{"message":"fine"}}`},
		{"[[usage-limit 90]]", 429, `{"error":{"message":"The usage limit has been reached","resets_in_seconds":90,"type":"usage_limit_reached"}}`},
		{"[[usage-limit]]", 429, `{"error":{"message":"The usage limit has been reached","resets_in_seconds":3600,"type":"usage_limit_reached"}}`},
	} {
		if _, status, body := ask(t, srv, user(tc.say)); status != tc.status || body != tc.body {
			t.Errorf("%s: %d %s", tc.say, status, body)
		}
	}
	for say, code := range map[string]string{"[[context-window]]": "context_length_exceeded", "[[overloaded]]": "server_is_overloaded"} {
		list, _, _ := ask(t, srv, user(say))
		last := list[len(list)-1]
		failure, _ := last.data["response"].(map[string]any)["error"].(map[string]any)
		if last.kind != "response.failed" || failure["code"] != code {
			t.Errorf("%s: %v", say, last)
		}
	}
	for range 2 {
		if list, _, _ := ask(t, srv, user("[[empty]] x")); kinds(list) != "created completed" {
			t.Errorf("empty: %s", kinds(list))
		}
	}
	// With a number the failure passes, whatever stands around it.
	for i, want := range []string{"created completed", "created completed", "created output_item.added output_text.delta output_item.done completed"} {
		if list, _, _ := ask(t, srv, user("[[empty 2]]"+strings.Repeat("!", i))); kinds(list) != want {
			t.Errorf("empty 2, time %d: %s", i+1, kinds(list))
		}
	}
	for i, want := range []bool{true, false} {
		if list, _, _ := ask(t, srv, user("[[context-window 1 here]]")); strings.Contains(kinds(list), "failed") != want {
			t.Errorf("context-window 1, time %d: %s", i+1, kinds(list))
		}
	}
	for _, body := range []string{"not json", `{"input":"text"}`} {
		resp, err := post(t, context.Background(), srv, []byte(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %d", body, resp.StatusCode)
		}
	}
	resp, err := http.Get(srv.URL() + "/models")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("another path: %d", resp.StatusCode)
	}
}

func TestServer_StallEndsWithTheClientOrTheServer(t *testing.T) {
	for _, word := range []string{"[[stall]]", "[[stall-headers]]", "[[sh touch x]] [[stall]]", "[[slow 5]]"} {
		seen := make(chan struct{}, 8)
		srv := mustNew(t, model.Options{SlowStep: time.Hour, OnRequest: func(model.Request) { seen <- struct{}{} }})
		body := map[string]any{"input": []any{user(word), output("done")}}

		ctx, cancel := context.WithCancel(context.Background())
		result := make(chan error, 2)
		get := func(ctx context.Context) { // ends with ctx or the server
			resp, err := post(t, ctx, srv, body)
			if err == nil {
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			result <- err
		}
		go get(ctx)
		<-seen
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: client gone: %v", word, err)
		}
		go get(context.Background())
		<-seen
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-result; err == nil && strings.Contains(word, "stall") {
			t.Errorf("%s: answered by Close", word)
		}
	}
}

func TestServer_Requests(t *testing.T) {
	var hooked []int
	srv := mustNew(t, model.Options{
		Keep:      2,
		OnRequest: func(r model.Request) { hooked = append(hooked, r.N) },
		Reply: func(r model.Request) (model.Reply, bool) {
			if strings.Contains(r.Newest(), "scripted") {
				return model.Reply{Text: "by script", Calls: []model.Call{{Name: "t", Arguments: "{}"}}}, true
			}
			return model.Reply{}, false
		},
	})
	resp, err := post(t, context.Background(), srv, map[string]any{
		"model": "gpt", "instructions": "base", "extra": 1,
		"input": []any{
			map[string]any{"role": "developer", "content": []any{map[string]any{"type": "input_text", "text": "dev"}}},
			user("first"),
			map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": "mine"}}},
			map[string]any{"type": "reasoning", "summary": []any{}},
			map[string]any{"role": "user", "content": []any{map[string]any{"type": "input_text", "text": "a \"quoted\" <scripted>"}, map[string]any{"type": "input_image", "image_url": "data:"}}},
			output(map[string]any{"odd": 1}),
		},
		"tools": []any{map[string]any{"type": "function", "name": "exec_command"}, map[string]any{"type": "web_search"}, 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	list := events(t, string(text))
	if got, _ := said(list); got != "by script" || list[2].item()["name"] != "t" {
		t.Errorf("scripted: %s", kinds(list))
	}
	got := srv.Requests()[0]
	if got.N != 1 || got.Model != "gpt" || got.Instructions != "base" || got.Images != 1 ||
		!slices.Equal(got.Developer, []string{"dev"}) || !slices.Equal(got.Users, []string{"first", "a \"quoted\" <scripted>"}) ||
		!slices.Equal(got.Assistants, []string{"mine"}) || !slices.Equal(got.Tools, []string{"exec_command", "web_search"}) ||
		!slices.Equal(got.Outputs, []string{`{"odd":1}`}) || got.Newest() != got.Users[1] {
		t.Errorf("%+v", got)
	}
	if !got.Has(`a "quoted" <scripted>`) || !got.Has("extra") || got.Has("absent") {
		t.Error("Has misreads the body")
	}
	ask(t, srv, user("second"))
	ask(t, srv, user("third"))
	if reqs := srv.Requests(); len(reqs) != 2 || reqs[0].N != 2 || reqs[1].Newest() != "third" || srv.Total() != 3 {
		t.Errorf("kept %d of %d", len(srv.Requests()), srv.Total())
	}
	if !slices.Equal(hooked, []int{1, 2, 3}) {
		t.Errorf("hook saw %v", hooked)
	}
}

func TestServer_Wait(t *testing.T) {
	srv := mustNew(t, model.Options{})
	third := func(r model.Request) bool { return r.Newest() == "three" }
	result := make(chan model.Request, 1)
	go func() { // ends when the request arrives
		req, err := srv.Wait(context.Background(), third)
		if err != nil {
			t.Error(err)
		}
		result <- req
	}()
	for _, text := range []string{"one", "two", "three"} {
		ask(t, srv, user(text))
	}
	if req := <-result; req.N != 3 {
		t.Errorf("woken for request %d", req.N)
	}
	if req, err := srv.Wait(context.Background(), third); err != nil || req.N != 3 {
		t.Errorf("a request of before: %d %v", req.N, err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	if _, err := srv.Wait(ctx, func(model.Request) bool { return false }); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("cancelled: %v", err)
	}
}

func TestServer_ConfigTOML(t *testing.T) {
	srv := mustNew(t, model.Options{Model: `odd "model"`})
	var config struct {
		Model          string
		ModelProvider  string `toml:"model_provider"`
		ModelProviders map[string]struct {
			BaseURL string `toml:"base_url"`
			WireAPI string `toml:"wire_api"`
			Retries int    `toml:"request_max_retries"`
		} `toml:"model_providers"`
	}
	if err := toml.Unmarshal([]byte(srv.ConfigTOML()), &config); err != nil {
		t.Fatal(err)
	}
	provider := config.ModelProviders[config.ModelProvider]
	if config.Model != `odd "model"` || provider.BaseURL != srv.URL() || provider.WireAPI != "responses" || provider.Retries != 0 {
		t.Errorf("%+v", config)
	}
}

func TestServer_CloseTwice(t *testing.T) {
	srv, err := model.New(model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := post(t, context.Background(), srv, map[string]any{}); err == nil {
		t.Error("a closed server answers")
	}
}
