package sandbox

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// Mismatch is a field of a thread's effective policy that is not the one asked
// for. No turn may run on that thread.
type Mismatch struct{ Field, Want, Got string }

// Error implements error.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("effective policy differs in %s: want %s, got %s", m.Field, m.Want, m.Got)
}

// CheckOwner compares the reply to thread/start or thread/resume with what an
// owner's thread was asked for.
func (c *Child) CheckOwner(reply rpc.ThreadReply) error {
	want := policyWant{profile: c.owner, cwd: c.policy.opts.Cwd, ephemeral: false}
	switch c.policy.opts.Mode {
	case ReadOnly:
		want.extends, want.sandbox = ":read-only", "readOnly"
	case WorkspaceWrite:
		want.extends, want.sandbox = ":workspace", "workspaceWrite"
	case FullAccess:
		want.sandbox, want.network = "dangerFullAccess", true
	default:
		return &Mismatch{"mode", "a known mode", string(c.policy.opts.Mode)}
	}
	return want.compare(reply)
}

// CheckGuest compares the reply to thread/start with what GuestStart asked for
// in this room. A room that was never asked for does not pass.
func (c *Child) CheckGuest(reply rpc.ThreadReply, room string) error {
	room = filepath.Clean(room)
	c.mu.Lock()
	profile, asked := c.rooms[room]
	c.mu.Unlock()
	if !asked {
		return &Mismatch{"room", "a room that a thread was asked for", room}
	}
	want := policyWant{profile: profile, sandbox: "readOnly", cwd: room, ephemeral: true}
	if err := want.compare(reply); err != nil {
		return err
	}
	if len(reply.InstructionSources) > 0 {
		return &Mismatch{"instructionSources", "none", strings.Join(reply.InstructionSources, ", ")}
	}
	c.mu.Lock()
	delete(c.rooms, room)
	c.mu.Unlock()
	return nil
}

// policyWant is the effective policy that a reply has to show.
type policyWant struct {
	profile, extends, sandbox, cwd string
	ephemeral, network             bool
}

func (w policyWant) compare(reply rpc.ThreadReply) error {
	profile, extends := "none", ""
	if reply.ActivePermissionProfile != nil {
		profile, extends = reply.ActivePermissionProfile.ID, reply.ActivePermissionProfile.Extends
	}
	checks := []Mismatch{
		{"activePermissionProfile.id", w.profile, profile},
		{"activePermissionProfile.extends", w.extends, extends},
		{"sandbox.type", w.sandbox, reply.Sandbox.Type},
		{"approvalPolicy", approvalNever, plainString(reply.ApprovalPolicy)},
		{"thread.ephemeral", fmt.Sprint(w.ephemeral), fmt.Sprint(reply.Thread.Ephemeral)},
		{"cwd", resolve(w.cwd), resolve(reply.Cwd)},
	}
	if !w.network {
		checks = append(checks, Mismatch{"sandbox.networkAccess", "false", network(reply.Sandbox)})
	}
	for _, c := range checks {
		if c.Want != c.Got {
			return &c
		}
	}
	return nil
}

// plainString reads a JSON string; any other value shows as its JSON text,
// which never equals a wanted word.
func plainString(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil && s != "" {
		return s
	}
	if len(raw) == 0 {
		return "absent"
	}
	return "json:" + string(raw)
}

// network shows networkAccess, which some versions send as a word.
func network(s rpc.SandboxInfo) string {
	switch v := any(s.NetworkAccess).(type) {
	case bool:
		return fmt.Sprint(v)
	case nil:
		return "absent"
	default:
		return fmt.Sprint(v)
	}
}
