package stubserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Built-in permission profiles.
const (
	profileReadOnly   = ":read-only"
	profileWorkspace  = ":workspace"
	profileFullAccess = ":danger-full-access"
)

// policy is what is in force on a thread.
type policy struct {
	Approval string `json:"approval"`
	// Kind is read-only, workspace-write or danger-full-access.
	Kind    string `json:"kind"`
	Network bool   `json:"network"`
	// Profile is "" when the thread was asked for a plain sandbox.
	Profile string `json:"profile"`
	Extends string `json:"extends"`
}

// Sandbox kinds, as thread/start names them.
const (
	sandboxReadOnly   = "read-only"
	sandboxWorkspace  = "workspace-write"
	sandboxFullAccess = "danger-full-access"
)

// settle works out the policy of a thread: `sandbox` wins over profiles, without
// a word (codex app-server 0.171.0, measured).
func settle(values object, sandbox, approval string) (policy, *fault) {
	p := policy{Approval: approval, Kind: sandbox}
	if approval == "" {
		p.Approval = "on-request"
	}
	if sandbox != "" {
		return p, nil
	}
	r, err := resolveProfile(values, "")
	if err != nil {
		return p, invalid("failed to load configuration: %v", err)
	}
	r.Approval = p.Approval
	return r, nil
}

// resolveProfile finds a profile; "" means the default one.
func resolveProfile(values object, name string) (policy, error) {
	if name == "" {
		name, _ = values["default_permissions"].(string)
	}
	switch name {
	case "", profileReadOnly:
		return policy{Kind: sandboxReadOnly, Profile: profileReadOnly}, nil
	case profileWorkspace:
		return policy{Kind: sandboxWorkspace, Profile: name}, nil
	case profileFullAccess:
		return policy{Kind: sandboxFullAccess, Profile: name, Network: true}, nil
	}
	table, ok := values["permissions"].(map[string]any)
	if !ok {
		return policy{}, fmt.Errorf("default_permissions requires a `[permissions]` table")
	}
	own, ok := table[name].(map[string]any)
	if !ok {
		return policy{}, fmt.Errorf("default_permissions refers to undefined profile `%s`", name)
	}
	p := policy{Kind: sandboxReadOnly, Profile: name}
	p.Extends, _ = own["extends"].(string)
	switch {
	case p.Extends == profileFullAccess:
		return policy{}, fmt.Errorf("permissions profile `%s` cannot extend unsupported built-in profile `%s`", name, p.Extends)
	case p.Extends == name:
		return policy{}, fmt.Errorf("permissions profile `%s` extends itself", name)
	case p.Extends != "":
		base, err := resolveProfile(values, p.Extends)
		if err != nil {
			return policy{}, err
		}
		p.Kind, p.Network = base.Kind, base.Network
	}
	if network, ok := own["network"].(map[string]any); ok {
		p.Network, _ = network["enabled"].(bool)
	}
	return p, nil
}

// sandbox is the policy as replies show it.
func (p policy) sandbox() object {
	switch p.Kind {
	case sandboxFullAccess:
		return object{"type": "dangerFullAccess"}
	case sandboxWorkspace:
		return object{
			"type": "workspaceWrite", "writableRoots": []string{}, "networkAccess": p.Network,
			"excludeTmpdirEnvVar": false, "excludeSlashTmp": false,
		}
	default:
		return object{"type": "readOnly", "networkAccess": p.Network}
	}
}

func (p policy) profile() any {
	if p.Profile == "" {
		return nil
	}
	return object{"id": p.Profile, "extends": orNull(p.Extends)}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// bend makes the policy of a new thread another than the one asked for, when the
// environment says so.
func (s *Server) bend(t *thread) {
	switch s.env[envPolicy] {
	case "profile":
		t.policy.Profile = ""
	case "network":
		t.policy.Network = true
	case "write":
		t.policy.Kind = sandboxWorkspace
	case "durable":
		t.ephemeral = false
	}
}

// instructions are the files whose text stands in the thread's prompt.
func (s *Server) instructions() []string {
	sources := []string{}
	if path := filepath.Join(s.home, "AGENTS.md"); s.env[envPolicy] == "instructions" || exists(path) {
		sources = append(sources, path)
	}
	return sources
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// badUUID says what is wrong with an id; "" for a good one.
func badUUID(id string) string {
	hex := strings.ReplaceAll(id, "-", "")
	for i, r := range id {
		if !strings.ContainsRune("0123456789abcdefABCDEF-", r) {
			return fmt.Sprintf("invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `%c` at %d", r, i+1)
		}
	}
	if len(hex) != 32 {
		return fmt.Sprintf("invalid length: expected length 32 for simple format, found %d", len(hex))
	}
	return ""
}
