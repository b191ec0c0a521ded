package supervisor_test

import (
	"fmt"
	"image"
	"image/png"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// reach is one thing that a turn may get at.
type reach struct {
	target string
	// ask is the message; what counts as reached is seen in the answer, or by
	// seen, which is asked afterwards.
	ask  string
	seen func(answer string) bool
	// plain and guest are what was measured on codex 0.171.0.
	plain, guest bool
}

// What a turn reaches on Codex's own read-only sandbox and on ours, target by
// target: the table of docs/security.md, which has to say the same.
func TestReal_WhatAGuestReaches(t *testing.T) {
	h, m := realHouse(t, nil)
	w := h.opt.WorkDirs[0]
	personal(t, h)
	h.put(w.CodexHomeFrom+"/auth.json", `{"OPENAI_API_KEY":"canary-1"}`)
	bare, ours := startBareChild(t, h, "HOUSE_TOKEN=canary-1"), startRealChild(t, h, "HOUSE_TOKEN=canary-1")
	for _, c := range []*realChild{bare, ours} {
		owner := c.open(rpc.ThreadStartParams{Cwd: w.Path, ApprovalPolicy: "never"})
		c.turn(owner.Thread.ID, "[[remember canary-1]]")
	}

	rooms := filepath.Join(w.State, "rooms")
	h.put(ours.room(rooms)+"/a.txt", "canary-1")
	for _, path := range []string{w.Path + "/a.txt", w.Results + "/a.txt", w.Tasks + "/a.txt", w.State + "/ledger.db", h.dir + "/elsewhere/.netrc"} {
		h.put(path, "canary-1")
	}
	picture, err := os.Create(w.Path + "/a.png")
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(picture, image.NewGray(image.Rect(0, 0, 8, 8))); err != nil {
		t.Fatal(err)
	}
	if err := picture.Close(); err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(h.dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	address, err := url.Parse(m.URL())
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}

	says := func(word string) func(string) bool {
		return func(answer string) bool { return strings.Contains(answer, word) }
	}
	canary := says("canary-1")
	sh := func(command string) string { return "[[sh " + command + "]]" }
	prompt := func(word string) func(string) bool {
		// These come first: later requests hold what was read before.
		return func(string) bool { r := m.Requests(); return r[len(r)-1].Has(word) }
	}
	reaches := func(c *realChild) []reach {
		return []reach{
			{"the user's `AGENTS.md` in the prompt", "hello", prompt("personal-agents"), true, false},
			{"the user's `developer_instructions` in the prompt", "hello", prompt("personal-developer"), true, false},
			{"the list of skills in the prompt", "hello", prompt("personal-skill"), true, false},
			{"its own room", sh("cat a.txt"), says("of-the-room"), true, true},
			{"files of the work dir", sh("cat " + w.Path + "/a.txt"), canary, true, false},
			{"answers to other rooms (`results/`)", sh("cat " + w.Results + "/a.txt"), canary, true, false},
			{"messages of other rooms (`tasks/`)", sh("cat " + w.Tasks + "/a.txt"), canary, true, false},
			{"a picture of the work dir, by `view_image`", "[[view " + w.Path + "/a.png]]", func(string) bool { r := m.Requests(); return r[len(r)-1].Images > 0 }, true, false},
			{"another guest's room", sh("cat ../*/a.txt"), canary, true, false},
			{"the ledger", sh("cat " + w.State + "/ledger.db"), canary, true, false},
			{"Codex's configuration", sh("cat " + c.home.Dir + "/config.toml"), says("personal-"), true, false},
			{"Codex's login", sh("cat " + c.home.Dir + "/auth.json"), canary, true, false},
			{"owners' conversations (rollouts)", sh("find " + c.home.Dir + "/sessions -type f -exec cat {} +"), canary, true, false},
			{"other files of the service's user", sh("cat " + h.dir + "/elsewhere/.netrc"), canary, true, false},
			{"the environment set in Codex's configuration", sh("env"), says("personal-environment"), true, false},
			{"the environment of the service, from `env`", sh("env"), canary, true, false},
			{"the environment of the service, through `/proc`", sh(fmt.Sprintf("cat /proc/*/environ /proc/%d/environ | tr '\\\\0' '\\\\n'", c.pid)), canary, true, false},
			{"a unix socket", sh(`/usr/bin/python3 -c 'import socket;s=socket.socket(socket.AF_UNIX);s.connect("` + filepath.Join(h.dir, "s") + `");print("connect"+"ed")'`), says("connected"), false, false},
			{"the network, loopback included", sh("bash -c 'exec 3<>/dev/tcp/127.0.0.1/" + address.Port() + " && echo connect''ed'"), says("connected"), false, false},
			{"writing to the room", sh("echo x >written; cat written && echo was-''written"), says("was-written"), false, false},
			{"writing to a `/dev/shm` that is gone with the command", sh("echo x >/dev/shm/written && echo was-''written"), says("was-written"), true, true},
			{"`/etc`, as the service's user may read it", sh("cat /etc/passwd"), says("root:"), true, true},
			{"`/usr`", sh("ls /usr"), says("bin"), true, true},
			{"the name of the machine, its load", sh("uname -n; cat /proc/loadavg"), says(host), true, true},
		}
	}
	doc, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Logf("the document is not compared: %v", err) // a checkout that this user may not enter
	}
	ways := []struct {
		name string
		c    *realChild
		open func(room string) rpc.ThreadReply
		want func(reach) bool
		got  []bool
	}{
		{name: "plain read-only", c: bare, open: func(room string) rpc.ThreadReply {
			return bare.open(rpc.ThreadStartParams{Cwd: room, ApprovalPolicy: "never", Sandbox: "read-only", Ephemeral: true})
		}, want: func(r reach) bool { return r.plain }},
		{name: "ours", c: ours, open: func(room string) rpc.ThreadReply { return ours.openGuest(task.Guest, room) }, want: func(r reach) bool { return r.guest }},
	}
	for i := range ways {
		way := &ways[i]
		room := ours.room(rooms)
		h.put(room+"/a.txt", "of-the-room")
		thread := way.open(room).Thread.ID
		for _, r := range reaches(way.c) {
			answer := strings.ReplaceAll(way.c.turn(thread, r.ask), r.ask, "")
			got := r.seen(answer)
			way.got = append(way.got, got)
			if got != way.want(r) {
				t.Errorf("%s, %s: reached %t, want %t: %.300q", way.name, r.target, got, way.want(r), answer)
			}
		}
	}
	word := map[bool]string{true: "**yes**", false: "no"}
	var table strings.Builder
	for i, r := range reaches(ours) {
		row := fmt.Sprintf("| %s | %s | %s |\n", r.target, word[ways[0].got[i]], word[ways[1].got[i]])
		table.WriteString(row)
		if doc != nil && !strings.Contains(string(doc), row) {
			t.Errorf("docs/security.md does not have the row %q", row)
		}
	}
	t.Log("measured:\n" + table.String())
}
