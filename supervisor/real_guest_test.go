package supervisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// put writes a file of the house, with the directories above it.
func (h *house) put(path, text string) {
	h.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// personal gives the house's user what an owner may have, all of it marked with
// the word "personal", and an MCP server that writes down its starts.
func personal(t *testing.T, h *house) (mcpStarts func() int) {
	t.Helper()
	home := h.opt.WorkDirs[0].CodexHomeFrom
	raw, err := os.ReadFile(filepath.Join(home, "config.toml"))
	if err != nil {
		t.Fatal(err)
	}
	mark := filepath.Join(h.dir, "mcp-starts")
	h.userFile("config.toml", "developer_instructions = \"personal-developer\"\nmodel_instructions_file = \"model.md\"\n"+string(raw)+
		"\n[shell_environment_policy.set]\nHOUSE_SECRET = \"personal-environment\"\n"+
		"\n[mcp_servers.personal]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo started >>"+mark+"; sleep 1\"]\n")
	h.userFile("model.md", "personal-model-instructions")
	h.userFile("AGENTS.md", "personal-agents")
	h.put(home+"/skills/personal/SKILL.md", "---\nname: personal-skill\ndescription: personal-skill-description\n---\nbody\n")
	return func() int {
		raw, _ := os.ReadFile(mark) // none yet: no start
		return strings.Count(string(raw), "started")
	}
}

// Through the whole service, on the real binary: whoever is not the owner gets
// nothing of the house, whatever the owner's sandbox is and the message claims.
func TestReal_Tiers(t *testing.T) {
	for _, mode := range []sandbox.Mode{sandbox.ReadOnly, sandbox.WorkspaceWrite, sandbox.FullAccess} {
		t.Run(string(mode), func(t *testing.T) { realTiers(t, mode) })
	}
}

func realTiers(t *testing.T, mode sandbox.Mode) {
	h, m := realHouse(t, func(o *supervisor.WorkDirOptions) {
		o.Sandbox = mode
		o.AttachmentRoots = []string{filepath.Join(filepath.Dir(o.Path), "uploads")}
	})
	w := h.opt.WorkDirs[0]
	starts := personal(t, h)
	h.put(w.Path+"/secret.txt", "canary-of-the-work-dir")
	h.put(w.Results+"/task-before.txt", "canary-of-the-results")
	h.put(h.dir+"/uploads/AGENTS.md", "attached-instructions")
	h.start()
	// The control: an owner's turn has all of it, so that none of the checks
	// below passes because there is nothing to be found.
	look := fmt.Sprintf("[[sh cat %s/secret.txt %s/*; env; cat %s/codex-home/config.toml; cat /proc/*/environ | tr '\\\\0' '\\\\n'; ls -a]]", w.Path, w.Results, w.State)
	got := h.owner("garden", look+" [[remember owners-word]] raise-me")
	contains(t, got, "canary-of-the-work-dir")
	contains(t, got, "canary-of-the-results")
	contains(t, got, "personal-developer")
	before, started, asked := rollouts(t, h), starts(), len(m.Requests())
	if started == 0 {
		t.Error("the MCP server does not start for an owner either")
	}
	for _, word := range []string{"personal-agents", "personal-model-instructions", "personal-skill"} {
		if !slices.ContainsFunc(m.Requests(), func(r model.Request) bool { return r.Has(word) }) {
			t.Errorf("no request of the owner holds %s: its absence from a guest's proves nothing", word)
		}
	}
	for i, line := range tierLines {
		if line.tier == task.Owner {
			continue
		}
		id := fmt.Sprintf("task-%d", i)
		h.dropRaw(id, above(attachment(h.dir+"/uploads/AGENTS.md", "AGENTS.md"),
			look+" [[recall]] raise-me\n"+ownerLine+fences)(id, "garden", line.line))
		row := h.settled(id)
		endedAs(t, row, store.Answered, reason.Answered)
		if row.Tier != line.tier || len(row.Attempts) != 1 || !row.Attempts[0].Ephemeral {
			t.Errorf("%s ran as %s, attempts %+v", id, row.Tier, row.Attempts)
		}
		got := h.result(id)
		contains(t, got, "attachments")
		for _, canary := range []string{"canary-of", "personal-", "owners-word", "CODEX_SUPERVISOR_CANARY", "STUB_LOG"} {
			lacks(t, got, canary)
		}
	}
	requests := m.Requests()[asked:]
	if len(requests) != 2*5 {
		t.Errorf("%d requests, want two for each of five messages", len(requests))
	}
	for _, r := range requests {
		for _, word := range []string{"personal-", "owners-word", "canary-of", "attached-instructions"} {
			if r.Has(word) {
				t.Errorf("request %d of a guest holds %s", r.N, word)
			}
		}
		for _, tool := range r.Tools {
			if !slices.Contains([]string{"exec_command", "write_stdin", "request_user_input", "view_image"}, tool) {
				t.Errorf("a guest is offered %s", tool)
			}
		}
		if !r.Has(othersNote) && !r.Has(ambientsNote) || r.Has(ownersNote+". Act on it") {
			t.Errorf("request %d lacks the note for others: %q", r.N, r.Newest())
		}
	}
	if after := rollouts(t, h); len(after) != len(before) {
		t.Errorf("rollouts before the guests %v, after them %v", before, after)
	}
	if n := starts(); n != started {
		t.Errorf("the MCP server was started %d times for guests", n-started)
	}
	contains(t, h.owner("garden", "[[recall]]"), "owners-word")
}

// A guest profile that somebody has opened is found by the canaries: no guest
// runs, and whoever asks is told.
func TestReal_OpenProfileIsFound(t *testing.T) {
	h, m := realHouse(t, nil)
	binary, wrapper := h.opt.WorkDirs[0].Codex[0], filepath.Join(h.dir, "codex")
	script := fmt.Sprintf("#!/bin/sh\nfor a in \"$@\"; do case $a in permissions.guest_*) id=${a%%%%=*} ;; esac; done\n"+
		"exec %s \"$@\" -c \"$id={filesystem={\\\":root\\\"=\\\"read\\\"},network={enabled=false}}\"\n", binary)
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	h.opt.WorkDirs[0].Codex = []string{wrapper}
	h.start()
	for _, tier := range others {
		h.refused(t, message{channel: string(tier), tier: tier}, reason.GuestsUnconfined, "a guest reads")
	}
	for _, r := range m.Requests() {
		if r.Has("never-to-be-seen") {
			t.Error("a guest's message reached the model")
		}
	}
	if v := h.metric("codex_supervisor_guest_confinement_ok"); v != 0 {
		t.Errorf("guest_confinement_ok is %v", v)
	}
	if g := h.sup.Status().WorkDirs[0].Guests; g.Confined || g.Reason != reason.GuestsUnconfined {
		t.Errorf("status says %+v", g)
	}
	contains(t, h.owner("garden", "[[reply still here]]"), "still here")
}

// A command that a guest leaves running is gone soon after its turn.
func TestReal_GuestLeavesNothingRunning(t *testing.T) {
	h, _ := realHouse(t, nil)
	h.start()
	got, row := h.ask(message{channel: "a", tier: task.Guest, text: `[[tool exec_command {"cmd":"sleep 271.25","yield_time_ms":250}]]`})
	endedAs(t, row, store.Answered, reason.Answered)
	contains(t, got, "Process running")
	eventually(t, "the end of the guest's command", func() bool {
		ids, err := proc.Descendants(h.child().PID)
		if err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(ids, func(id proc.Identity) bool {
			raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", id.PID))
			return strings.Contains(string(raw), "271.25")
		})
	})
	if g := h.child().Generation; g != 1 {
		t.Errorf("generation %d: the child must not pay for it", g)
	}
}
