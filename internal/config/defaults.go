package config

import "time"

// Defaults, with the reason for each.
const (
	// DefaultListen is loopback: metrics and the status page are not for others.
	DefaultListen = "127.0.0.1:9464"
	// DefaultDrainTimeout is how long a stop waits for running turns; it stays
	// under the 90 s after which systemd kills.
	DefaultDrainTimeout = 30 * time.Second
	// DefaultCodex is looked up in PATH.
	DefaultCodex = "codex"
	// DefaultTurnTimeout bounds an owner's turn. Long builds are real work, so
	// it is there for what will never end, not for what is slow.
	DefaultTurnTimeout = 6 * time.Hour
	// DefaultTierTurnTimeout bounds what a stranger can make the house do.
	DefaultTierTurnTimeout = 10 * time.Minute
	// DefaultInterruptGrace is far above the 14-140 ms that an interrupt takes
	// (codex app-server 0.171.0, measured), and short enough for a room to wait.
	DefaultInterruptGrace = 10 * time.Second
	// DefaultQuietAfter is when a silent turn is asked about. Asking is cheap,
	// and silence alone never ends a turn.
	DefaultQuietAfter = 2 * time.Minute
	// DefaultReplaceDrain is how long siblings may finish before their child is
	// replaced because of another turn.
	DefaultReplaceDrain = 30 * time.Second
	// DefaultStartTimeout covers a cold start on a loaded host.
	DefaultStartTimeout = 60 * time.Second
	// DefaultMaxTurns is where the throughput of one app-server levels off
	// (codex app-server 0.171.0, measured).
	DefaultMaxTurns = 4
	// DefaultAgeing lifts a waiting task one class, so that low priority means
	// later and not never.
	DefaultAgeing = 5 * time.Minute
	// DefaultMaxResultBytes is the gateways' own limit for one reply.
	DefaultMaxResultBytes = 49152
	// DefaultDoneRetention keeps ledger rows for 90 days after their task file
	// has gone: long past any gateway's redelivery.
	DefaultDoneRetention = 2160 * time.Hour
	// DefaultMaxBacklogAge spares a used inbox the answers to last week's
	// questions on the first start.
	DefaultMaxBacklogAge = 24 * time.Hour
)

// Words of log.level.
const (
	LogDebug = "debug"
	LogInfo  = "info"
	LogWarn  = "warn"
	LogError = "error"
)

// Words of log.format. Auto is text on a terminal, else JSON.
const (
	LogAuto = "auto"
	LogText = "text"
	LogJSON = "json"
)

// Words of sandbox, named as in Codex.
const (
	SandboxReadOnly       = "read-only"
	SandboxWorkspaceWrite = "workspace-write"
	SandboxFullAccess     = "danger-full-access"
)

// Words of envelope. Auto is Layout where an HMAC key exists, else Accept.
const (
	EnvelopeAuto   = "auto"
	EnvelopeAccept = "accept"
	EnvelopeLayout = "layout"
	EnvelopeStrict = "strict"
)

// Words of shell_env. Core gives commands a core environment and no login
// shell, which makes a new thread about 20 times cheaper (codex app-server
// 0.171.0, measured).
const (
	ShellEnvCore  = "core"
	ShellEnvLogin = "login"
)

// Words of codex_home; anything else is a path.
const (
	CodexHomePrivate = "private"
	CodexHomeInherit = "inherit"
)

// Names of the tiers that have a table. Owners have none: the work dir's own
// keys are theirs.
const (
	TierTeam    = "team"
	TierGuest   = "guest"
	TierAmbient = "ambient"
)
