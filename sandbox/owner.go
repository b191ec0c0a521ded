package sandbox

import (
	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// approvalNever: nobody is there to be asked.
const approvalNever = "never"

func (c *Child) ownerConfig() map[string]any {
	config := map[string]any{"default_permissions": c.owner}
	if c.policy.opts.ShellEnv != ShellEnvLogin {
		config["features"] = map[string]any{"shell_snapshot": false}
		config["allow_login_shell"] = false
	}
	return config
}

// OwnerStart are the parameters of a channel's durable thread. Tools and
// network are left to Codex's own configuration.
func (c *Child) OwnerStart() rpc.ThreadStartParams {
	o := c.policy.opts
	return rpc.ThreadStartParams{
		Cwd: o.Cwd, ApprovalPolicy: approvalNever, Model: o.Model,
		DeveloperInstructions: o.DeveloperInstructions, Config: c.ownerConfig(),
	}
}

// OwnerResume are the same for a stored thread. They are passed every time: a
// resume without them restores what was stored, danger-full-access included
// (codex app-server 0.171.0, measured).
func (c *Child) OwnerResume(threadID string) rpc.ThreadResumeParams {
	o := c.policy.opts
	return rpc.ThreadResumeParams{
		ThreadID: threadID, Cwd: o.Cwd, ApprovalPolicy: approvalNever, Model: o.Model,
		DeveloperInstructions: o.DeveloperInstructions, Config: c.ownerConfig(), ExcludeTurns: true,
	}
}
