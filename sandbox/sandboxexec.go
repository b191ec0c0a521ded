package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// SandboxExec runs the probe's commands through `codex sandbox -P`, with the
// same overrides and the same environment as the child. It needs no
// experimental API, and it proves the profile on this host, but not the
// running child: the second-best way.
func (c *Child) SandboxExec(env []string) ExecFunc {
	return func(ctx context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(p.TimeoutMs)*time.Millisecond)
		defer cancel()
		args := append([]string{"sandbox", "-P", p.PermissionProfile}, c.Args()...)
		args = append(args, "-C", p.Cwd, "--")
		cmd := exec.CommandContext(ctx, c.policy.opts.CodexBinary, append(args, p.Command...)...)
		cmd.Dir, cmd.Env, cmd.WaitDelay = p.Cwd, env, time.Second
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		err := cmd.Run()
		result := rpc.CommandExecReply{Stdout: out.String(), Stderr: errs.String()}
		var exit *exec.ExitError
		switch {
		case ctx.Err() != nil:
			return result, fmt.Errorf("run codex sandbox: %w", context.Cause(ctx))
		case errors.As(err, &exit):
			result.ExitCode = exit.ExitCode()
		case err != nil:
			return result, fmt.Errorf("run codex sandbox: %w", err)
		}
		return result, nil
	}
}
