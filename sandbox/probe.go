package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// ExecFunc runs one command under a permission profile of the child:
// rpc.Client.CommandExec on the running child, which needs the experimental
// API, or [Child.SandboxExec] without it.
type ExecFunc func(ctx context.Context, params rpc.CommandExecParams) (rpc.CommandExecReply, error)

// roomsDir is where the service keeps rooms below its state dir; the probe's
// rooms lie beside those of real guests.
const roomsDir = "rooms"

// RoomsDir is the directory to hand to [OpenRooms] for a state dir.
func RoomsDir(state string) string { return filepath.Join(state, roomsDir) }

// Unproven says why a probe did not hold.
type Unproven struct{ What string }

// Error implements error.
func (e *Unproven) Error() string { return "guest confinement not proven: " + e.What }

// canary is a secret that a guest must not see.
type canary struct{ name, secret, path string }

// The probe's commands. The first runs without a sandbox and proves that each
// canary is there to be found; it reads our own files and nothing else. The
// second does the same as a guest, looks where an environment can be seen, and
// tries to write. Both end with a mark, so that a command that never ran is
// not taken for one that found nothing.
const (
	controlScript = `for f in "$@"; do cat -- "$f"; done
if [ -r /proc/$PPID/environ ]; then tr '\0' '\n' </proc/$PPID/environ; else ps eww -p $PPID; fi | grep -o '` + canaryName + `=[0-9a-f]*'
echo probe-end`
	guestScript = `for f in "$@"; do cat -- "$f"; done
env
cat /proc/*/environ
echo x >"$1.written"
echo probe-end`
	probeEnd = "probe-end"
)

// probeTimeoutMs bounds each command; measured are 30 to 220 ms.
const probeTimeoutMs = 20_000

// Probe proves the confinement on the running child: under every guest profile
// a file of the room is read, and the canaries - in the work dir, in
// CODEX_HOME, in another room, in the environment - are not, though each was
// just read without the sandbox. Whatever else happens is not a proof. It may
// be called again; the newest verdict counts.
func (c *Child) Probe(ctx context.Context, exec ExecFunc) error {
	c.proven.Store(false)
	err := c.probe(ctx, exec)
	if err == nil {
		c.proven.Store(true)
	}
	return err
}

func (c *Child) probe(ctx context.Context, exec ExecFunc) (err error) {
	o := c.policy.opts
	rooms := RoomsDir(o.State)
	if err := privateDir(rooms); err != nil {
		return fmt.Errorf("prepare the probe: %w", err)
	}
	room, other := filepath.Join(rooms, "probe-"+randomHex()), filepath.Join(rooms, "probe-"+randomHex())
	defer func() { err = errors.Join(err, os.RemoveAll(room), os.RemoveAll(other)) }()
	for _, dir := range []string{room, other} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return fmt.Errorf("prepare the probe: %w", err)
		}
	}
	inRoom := canary{"the room", "room-" + randomHex(), filepath.Join(room, "probe.txt")}
	var canaries []canary
	paths := []string{inRoom.path}
	for _, k := range []canary{
		inRoom,
		{"the work dir", randomHex(), filepath.Join(o.Work, canaryPrefix+randomHex())},
		{"the results", randomHex(), filepath.Join(o.Results, canaryPrefix+randomHex())},
		{"CODEX_HOME", randomHex(), filepath.Join(o.CodexHome, canaryPrefix+randomHex())},
		{"another room", randomHex(), filepath.Join(other, "probe.txt")},
	} {
		err := os.WriteFile(k.path, []byte(k.secret+"\n"), 0o600)
		if filepath.Dir(k.path) == filepath.Clean(o.Work) && readOnly(err) && inside(resolve(o.Results), resolve(o.Work)) {
			continue // the results, which lie in it, stand for a work dir that we may not write
		}
		if err != nil {
			return fmt.Errorf("place the canary of %s: %w", k.name, err)
		}
		defer func() {
			if gone := os.Remove(k.path); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}()
		if k.path != inRoom.path {
			paths = append(paths, k.path)
			canaries = append(canaries, k)
		}
	}
	canaries = append(canaries, canary{"the environment", c.secret, ""})

	run := func(profile, script string) (string, error) {
		result, err := exec(ctx, rpc.CommandExecParams{
			Command: append([]string{"/bin/sh", "-c", script, "sh"}, paths...),
			Cwd:     room, PermissionProfile: profile, TimeoutMs: probeTimeoutMs,
		})
		if err != nil {
			return "", err
		}
		out := result.Stdout + "\n" + result.Stderr
		if !strings.Contains(out, probeEnd) {
			return "", &Unproven{"the command did not run to its end: " + oneLine(out, 300)}
		}
		return out, nil
	}

	control, err := run(fullAccessProfile, controlScript)
	if err != nil {
		return fmt.Errorf("run the probe without the sandbox: %w", err)
	}
	for _, k := range append([]canary{inRoom}, canaries...) {
		if !strings.Contains(control, k.secret) {
			return &Unproven{"the canary of " + k.name + " cannot be read without the sandbox either"}
		}
	}
	for _, profile := range c.guestProfiles() {
		out, err := run(profile, guestScript)
		if err != nil {
			return fmt.Errorf("run the probe as a guest: %w", err)
		}
		if !strings.Contains(out, inRoom.secret) {
			return &Unproven{"a guest cannot read its own room"}
		}
		for _, k := range canaries {
			if strings.Contains(out, k.secret) {
				return &Unproven{"a guest reads " + k.name}
			}
		}
		if _, err := os.Lstat(inRoom.path + ".written"); !errors.Is(err, fs.ErrNotExist) {
			return &Unproven{"a guest writes into its room"}
		}
	}
	return nil
}

// readOnly reports whether a write failed because nothing may be written there.
func readOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}
