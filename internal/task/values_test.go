package task_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

func TestParseAttachments(t *testing.T) {
	one := func(a task.Attachment) []task.Attachment { return []task.Attachment{a} }
	for value, want := range map[string][]task.Attachment{
		``:                            nil,
		`no json`:                     nil,
		`{"locator":"a"}`:             nil,
		`[{"locator":"a"}] x`:         nil,
		`[{"locator":"a"}`:            nil,
		`[NaN]`:                       nil,
		`[]`:                          nil,
		`["a",null,[],{},{"id":"x"}]`: nil,
		`[{"locator":""},{"locator":7},{"locator":"b"}]`:                                                        one(task.Attachment{Locator: "b"}),
		`[{"locator":"ü","id":"1","mime":"m","filename":"f","sha256":"s","expiry":"e","size":123,"other":[1]}]`: one(task.Attachment{Locator: "ü", ID: "1", MIME: "m", Filename: "f", SHA256: "s", Expiry: "e", Size: 123}),
		`[{"locator":"a","size":true,"mime":7}]`:                                                                one(task.Attachment{Locator: "a"}),
		`[{"locator":"a","size":-5}]`:                                                                           one(task.Attachment{Locator: "a"}),
		`[{"locator":"a","size":12.9}]`:                                                                         one(task.Attachment{Locator: "a", Size: 12}),
		`[{"locator":"a","size":" 12 "}]`:                                                                       one(task.Attachment{Locator: "a", Size: 12}),
		`[{"locator":"a","size":1e300}]`:                                                                        one(task.Attachment{Locator: "a"}),
		`[{"locator":"a","size":"x"}]`:                                                                          one(task.Attachment{Locator: "a"}),
		`[{"locator":"a","size":-1.5}]`:                                                                         one(task.Attachment{Locator: "a"}),
	} {
		if got := task.ParseAttachments(value); !slices.Equal(got, want) {
			t.Errorf("%s: %+v, want %+v", value, got, want)
		}
	}
}

func TestValidID(t *testing.T) {
	for stem, want := range map[string]bool{
		"task-1": true, "task-dev~9001": true, "a.b_c": true, strings.Repeat("x", 128): true, "task-a..b": true,
		"": false, ".": false, "..": false, ".hidden": false, "task-1\n": false, "a/b": false, "a b": false,
		"task-ü": false, strings.Repeat("x", 129): false, "task-\x00": false,
	} {
		if got := task.ValidID(stem); got != want {
			t.Errorf("ValidID(%q) = %v", stem, got)
		}
	}
	for stem, want := range map[string]bool{
		"task-a.claimed-w1": true, "task-a.assigned-w1": true, "task-a.b.claimed-x": true,
		"task-a": false, "task-a.claimed-": false, "task-.claimed-x": false, "note.claimed-x": false, "task-a.claimed": false,
	} {
		if got := task.OtherWorkers(stem); got != want {
			t.Errorf("OtherWorkers(%q) = %v", stem, got)
		}
	}
}

func TestChannelKey(t *testing.T) {
	for id, want := range map[string]string{
		"":   "default",
		"..": "5ec1f7e700f37c3d0b2981d04855fc34b94aaa15457b05ca571817442d228f81",
	} {
		if got := task.ChannelKey(id); got != want {
			t.Errorf("key of %q = %q, want %q", id, got, want)
		}
	}
	if task.ChannelKey("default") == "default" {
		t.Error("a channel can call itself the default one")
	}
}

func TestPolicy(t *testing.T) {
	for _, c := range []struct {
		p    task.Policy
		key  bool
		want task.Policy
	}{
		{task.PolicyAuto, true, task.PolicyLayout},
		{task.PolicyAuto, false, task.PolicyAccept},
		{"", true, task.PolicyLayout},
		{"", false, task.PolicyAccept},
		{task.PolicyAccept, true, task.PolicyAccept},
		{task.PolicyLayout, false, task.PolicyLayout},
		{task.PolicyStrict, false, task.PolicyStrict},
	} {
		if got := c.p.Resolve(c.key); got != c.want {
			t.Errorf("%q with key %v = %s, want %s", c.p, c.key, got, c.want)
		}
	}
	if p, err := task.ParsePolicy("strict"); p != task.PolicyStrict || err != nil {
		t.Errorf("strict: %v %v", p, err)
	}
	if _, err := task.ParsePolicy("Strict"); err == nil {
		t.Error("an unknown policy was taken")
	}
}

func TestPriority_Words(t *testing.T) {
	for p, word := range map[task.Priority]string{task.Urgent: "urgent", task.Normal: "normal", task.Low: "low", 9: "priority(9)"} {
		if p.String() != word {
			t.Errorf("%d = %s", p, p)
		}
		var back task.Priority
		text, _ := p.MarshalText()
		if err := back.UnmarshalText(text); (err == nil) != (p <= task.Low) || (err == nil && back != p) {
			t.Errorf("%s reads back as %s, %v", text, back, err)
		}
	}
	if p, ok := task.ParsePriority("soon"); p != task.Normal || ok {
		t.Errorf("soon = %s %v", p, ok)
	}
}
