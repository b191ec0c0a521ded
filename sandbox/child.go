package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// unloadDelay is how many seconds an unsubscribed thread stays loaded. Codex's
// 60 would keep a guest's background terminals alive as long; with 2 they were
// gone after 2.1 s (codex app-server 0.171.0, measured).
const unloadDelay = "2"

// canaryName is the environment variable that the probe looks for.
const canaryName = "CODEX_SUPERVISOR_CANARY"

// fullAccessProfile is built into Codex and cannot be extended: a profile of
// ours on top of it keeps the child from starting (measured).
const fullAccessProfile = ":danger-full-access"

// Child is the policy of one generation. Its profile ids are random, because a
// table of the same name in the user's own configuration would be merged with
// ours and could open reads again (codex app-server 0.171.0, measured).
type Child struct {
	policy  *Policy
	owner   string               // profile id of owner threads
	profile map[task.Tier]string // profile id of each non-owner tier
	secret  string               // value of the environment canary
	proven  atomic.Bool          // a probe has held; written by Probe only

	mu sync.Mutex
	// rooms remembers which profile a room's thread was asked for, from
	// GuestStart to a CheckGuest that holds, so that the check is exact.
	rooms map[string]string
}

// NewChild draws the ids of one generation.
func (p *Policy) NewChild() *Child {
	c := &Child{policy: p, secret: randomHex(), profile: map[task.Tier]string{}, rooms: map[string]string{}}
	c.owner = "owner_" + randomHex()
	if p.opts.Mode == FullAccess {
		c.owner = fullAccessProfile
	}
	// Tiers that may read the same share one profile, and so one probe.
	ids := map[string]string{}
	for _, tier := range nonOwners() {
		key := strings.Join(p.read[tier], "\x00")
		if ids[key] == "" {
			ids[key] = "guest_" + randomHex()
		}
		c.profile[tier] = ids[key]
	}
	return c
}

func nonOwners() []task.Tier { return []task.Tier{task.Team, task.Guest, task.Ambient} }

// guestProfile is the id for a tier; whatever is not a known tier is a guest.
func (c *Child) guestProfile(tier task.Tier) string {
	if id, ok := c.profile[tier]; ok {
		return id
	}
	return c.profile[task.Guest]
}

// guestProfiles are the distinct ids, in the order of the tiers.
func (c *Child) guestProfiles() []string {
	var ids []string
	seen := map[string]bool{}
	for _, tier := range nonOwners() {
		if id := c.profile[tier]; !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// Args are the overrides for the command line of `codex app-server` (and of
// `codex sandbox`): pairs of -c and key=value.
func (c *Child) Args() []string {
	o := c.policy.opts
	var args []string
	set := func(key, value string) { args = append(args, "-c", key+"="+value) }
	// The child's own default is what a thread gets that asks for nothing; it
	// must never be wider than the narrowest thing an owner is given.
	set("default_permissions", quoteTOML(":read-only"))
	set("shell_environment_policy.inherit", quoteTOML("core"))
	set("thread_unload_delay_secs", unloadDelay)
	if c.owner != fullAccessProfile {
		base := ":read-only"
		if o.Mode == WorkspaceWrite {
			base = ":workspace"
		}
		set("permissions."+c.owner, "{extends="+quoteTOML(base)+",filesystem="+inlineTable(c.policy.guarded())+"}")
	}
	written := map[string]bool{}
	for _, tier := range nonOwners() {
		if id := c.profile[tier]; !written[id] {
			written[id] = true
			set("permissions."+id, "{filesystem="+inlineTable(c.policy.confined(tier))+",network={enabled=false}}")
		}
	}
	return args
}

// guarded are the paths that an owner's commands may read but not write: a
// forged task file or a changed ledger would raise whoever writes it.
func (p *Policy) guarded() []pair {
	var pairs []pair
	seen := map[string]bool{}
	for _, path := range []string{p.opts.Tasks, p.opts.Results, p.opts.State, p.opts.CodexHome} {
		for _, spelling := range []string{filepath.Clean(path), resolve(path)} {
			if !seen[spelling] {
				seen[spelling] = true
				pairs = append(pairs, pair{spelling, quoteTOML("read")})
			}
		}
	}
	return pairs
}

// confined is everything that a guest of this tier may read.
func (p *Policy) confined(tier task.Tier) []pair {
	pairs := []pair{
		{":minimal", quoteTOML("read")},
		{":workspace_roots", inlineTable([]pair{{".", quoteTOML("read")}})},
	}
	seen := map[string]bool{}
	add := func(path, access string) {
		if !seen[path] {
			seen[path] = true
			pairs = append(pairs, pair{path, quoteTOML(access)})
		}
	}
	// The file, not its directory: without it every command ends in "bwrap:
	// execvp: no such file", and nothing else of the directory is needed.
	add(filepath.Clean(p.opts.CodexBinary), "read")
	add(resolve(p.opts.CodexBinary), "read")
	for _, path := range p.read[tier] {
		add(path, "read")
	}
	for _, path := range p.opts.Deny {
		add(filepath.Clean(path), "deny")
		add(resolve(path), "deny")
	}
	return pairs
}

// Environ is the child's part of the environment: the canary.
func (c *Child) Environ() []string { return []string{canaryName + "=" + c.secret} }

// Refusal says why non-owner work may not run on this child; "" when it may.
func (c *Child) Refusal() reason.Reason {
	o := c.policy.opts
	switch {
	case o.StubChild:
		return ""
	case o.UID == 0 && !o.UnsafeRootGuests:
		return reason.GuestsAsRoot
	case !c.proven.Load():
		return reason.GuestsUnconfined
	}
	return ""
}

// randomHex is 128 bits that nobody can have guessed.
func randomHex() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}
