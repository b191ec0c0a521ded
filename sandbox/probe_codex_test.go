package sandbox_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
)

func TestCodex_Probe(t *testing.T) {
	h := newHouse(t, "", func(h *house) {
		mustWrite(t, h.dir+"/readable/f", "x")
		h.opts.Read = map[task.Tier][]string{task.Team: {h.dir + "/readable"}}
	})
	child := h.policy().NewChild()
	c := h.start(child)
	if why := child.Refusal(); why != reason.GuestsUnconfined {
		t.Errorf("before the probe: %q", why)
	}
	if err := child.Probe(context.Background(), c.exec); err != nil {
		t.Fatal(err)
	}
	if why := child.Refusal(); why != "" {
		t.Errorf("after the probe: %q", why)
	}
	for _, dir := range []string{h.work, h.work + "/results", h.home.Dir, sandbox.RoomsDir(h.state)} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.Contains(e.Name(), "canary") || strings.HasPrefix(e.Name(), "probe-") {
				t.Errorf("left behind: %s", e.Name())
			}
		}
	}
	// Another generation's ids are unknown to this child: it cannot hold, and
	// a verdict of before does not stand.
	other := h.policy().NewChild()
	if err := other.Probe(context.Background(), c.exec); err == nil || other.Refusal() == "" {
		t.Errorf("a probe with profiles that the child does not have holds: %v", err)
	}
	broken := func(context.Context, rpc.CommandExecParams) (rpc.CommandExecReply, error) {
		return rpc.CommandExecReply{}, errors.New("requires experimentalApi capability")
	}
	if err := child.Probe(context.Background(), broken); err == nil || child.Refusal() != reason.GuestsUnconfined {
		t.Errorf("a probe that cannot run holds: %v, %q", err, child.Refusal())
	}
	// The fallback gives the same verdict without the experimental API.
	if err := child.Probe(context.Background(), child.SandboxExec(h.environ(child))); err != nil {
		t.Errorf("codex sandbox: %v", err)
	}
}

func TestCodex_ProbeFindsAnOpenProfile(t *testing.T) {
	h := newHouse(t, "", nil)
	child := h.policy().NewChild()
	// What a fixed id would be to a user's own table: the same profile, opened.
	var more []string
	for _, arg := range child.Args() {
		if key, _, ok := strings.Cut(arg, "="); ok && strings.HasPrefix(key, "permissions.guest_") {
			more = append(more, "-c", key+`={filesystem={":root"="read"},network={enabled=false}}`)
		}
	}
	c := h.start(child, more...)
	err := child.Probe(context.Background(), c.exec)
	var unproven *sandbox.Unproven
	if !errors.As(err, &unproven) || !strings.Contains(err.Error(), "a guest reads") {
		t.Errorf("probe of an open profile: %v", err)
	}
	if child.Refusal() != reason.GuestsUnconfined {
		t.Errorf("refusal: %q", child.Refusal())
	}
}
