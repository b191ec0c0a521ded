package sandbox

import (
	"path/filepath"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// guestFeatures are the features that a guest's thread does without. Most are
// on by default; the others are off unless the owner's configuration turns
// them on, and then they would bring tools, memories or programs into a
// guest's turn. Unknown names are ignored by older versions.
var guestFeatures = [...]string{
	"apps", "browser_use", "browser_use_external", "browser_use_full_cdp_access", "code_mode", "code_mode_only",
	"computer_use", "chronicle", "context_management", "exec_permission_approvals", "goals", "hooks",
	"image_generation", "in_app_browser", "memories", "multi_agent", "multi_agent_v2", "network_proxy", "plugins",
	"recommended_plugins", "remote_plugin", "request_permissions_tool", "shell_snapshot", "shell_snapshot_v2",
	"skill_mcp_dependency_install", "skill_search", "sleep_tool", "standalone_web_search", "tool_suggest",
	"use_legacy_landlock", "web_search_cached", "web_search_request", "workspace_dependencies",
}

// guestEnvironment is all that a guest's commands get. The values stand here
// and not only the names: include_only keeps the other names of the user's
// `[shell_environment_policy.set]` out, but not a value set under one of these
// (codex app-server 0.171.0, measured).
func guestEnvironment(room string) map[string]any {
	return map[string]any{
		"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": room, "LANG": "C.UTF-8", "TMPDIR": "/tmp",
	}
}

// GuestStart are the parameters of a non-owner's thread: ephemeral, in its
// room, with every hole closed that was found. mcpServers are the names of all
// servers configured for that room (config/read with cwd = room); each is
// switched off by name, since an empty table switches off nothing.
func (c *Child) GuestStart(tier task.Tier, room string, mcpServers []string) rpc.ThreadStartParams {
	room = filepath.Clean(room)
	id := c.guestProfile(tier)
	c.mu.Lock()
	c.rooms[room] = id
	c.mu.Unlock()

	features := map[string]any{}
	for _, name := range guestFeatures {
		features[name] = false
	}
	servers := map[string]any{}
	for _, name := range mcpServers {
		servers[name] = map[string]any{"enabled": false}
	}
	environment := guestEnvironment(room)
	names := make([]any, 0, len(environment))
	for name := range environment {
		names = append(names, name)
	}
	config := map[string]any{
		"default_permissions": id,
		"features":            features,
		"web_search":          "disabled",
		"skills":              map[string]any{"include_instructions": false},
		// A configured notify program runs outside the sandbox with the guest's
		// text as its argument.
		"notify": []any{},
		// Without these a `.codex/config.toml` of a repository around the room
		// is loaded, and Codex looks for markers in every parent through the
		// sandbox, which takes seconds.
		"project_root_markers":  []any{},
		"project_doc_max_bytes": 0,
		"allow_login_shell":     false,
		"shell_environment_policy": map[string]any{
			"inherit": "core", "include_only": names, "set": environment,
		},
	}
	if len(servers) > 0 {
		config["mcp_servers"] = servers
	}
	model := c.policy.opts.TierModel[tier]
	if model == "" {
		model = c.policy.opts.Model
	}
	return rpc.ThreadStartParams{
		Cwd: room, ApprovalPolicy: approvalNever, Model: model, Ephemeral: true, Config: config,
		// Both, and neither empty: the user's instructions,
		// model_instructions_file and developer_instructions stand in a guest's
		// prompt otherwise.
		BaseInstructions: guestBase, DeveloperInstructions: guestDeveloper,
	}
}
