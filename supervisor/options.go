package supervisor

import (
	"time"

	"golang.org/x/time/rate"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// Defaults, with the reason for each.
const (
	// DefaultTurnTimeout lets an owner's turn run for a working day's morning.
	DefaultTurnTimeout = 6 * time.Hour
	// DefaultGuestTurnTimeout bounds what a stranger can make the house do.
	DefaultGuestTurnTimeout = 10 * time.Minute
	// DefaultInterruptGrace is far above the 14-140 ms an interrupt takes
	// (codex app-server 0.171.0, measured), and short enough for a room to wait.
	DefaultInterruptGrace = 10 * time.Second
	// DefaultQuietAfter is when a silent turn is asked about.
	DefaultQuietAfter = 2 * time.Minute
	// DefaultReplaceDrain is how long siblings may finish before a replacement.
	DefaultReplaceDrain = 30 * time.Second
	// DefaultStartTimeout covers a cold start with large logs; a fixed 10 s one
	// failed on loaded hosts.
	DefaultStartTimeout = time.Minute
	// DefaultMaxTurns is where one app-server's throughput peaks (measured).
	DefaultMaxTurns = 4
	// DefaultAgeing raises a waiting task one class.
	DefaultAgeing = 5 * time.Minute
	// DefaultDoneRetention keeps a settled row for a quarter of a year after
	// its file has gone.
	DefaultDoneRetention = 2160 * time.Hour
	// DefaultMaxBacklogAge spares rooms the answers to yesterday's questions
	// on the first start.
	DefaultMaxBacklogAge = 24 * time.Hour
	// DefaultDrainTimeout is how long a stop waits for running turns.
	DefaultDrainTimeout = 30 * time.Second
	// maxTaskFile is the largest task file that is read. Codex takes 1,048,576
	// characters, at most 4 MiB of UTF-8; a larger file cannot be a prompt.
	maxTaskFile = 5 << 20
)

// WorkDirOptions is one work dir, fully resolved.
type WorkDirOptions struct {
	Name    string // label in metrics, logs and the CLI; unique
	Path    string // the work dir
	Tasks   string
	Results string
	State   string // of its own, outside everything an owner's turn may write
	KeyFile string // of the envelope's HMAC key; need not exist

	Codex []string // program and leading arguments; "app-server" is added
	// FindCodex, when set, finds the program anew at each start: one that was
	// installed or upgraded meanwhile is taken up.
	FindCodex     func() ([]string, error) `json:"-"`
	CodexHome     string                   // "private", "inherit" or a path
	CodexHomeFrom string                   // whose login and config a private home takes
	EnvPass       []string                 // names of variables passed on besides the allow-list
	Env           []string                 // set in the child besides these, NAME=VALUE (tests, demo)
	ShellEnv      string                   // "core" or "login"

	// Deny are more files that no guest may read, such as our configuration.
	Deny []string
	// Private are more directories that no tier may read: other work dirs, the
	// control socket's.
	Private []string

	Model   string
	Sandbox sandbox.Mode
	Cwd     string // of owner threads; the work dir by default

	TurnTimeout    time.Duration
	InterruptGrace time.Duration
	QuietAfter     time.Duration
	ReplaceDrain   time.Duration
	StartTimeout   time.Duration
	LockWait       time.Duration // for a thread that another process holds
	MaxTurns       int
	Ageing         time.Duration

	Envelope        task.Policy
	AttachmentRoots []string
	MaxResultBytes  int
	DoneRetention   time.Duration
	MaxBacklogAge   time.Duration
	Bind            map[string]string // channel id → thread id

	UnsafeRootGuests bool
	// StubChild says that the child is the built-in stub (tests, demo), which
	// runs no commands: there is nothing to confine or to prove.
	StubChild bool

	Tiers map[task.Tier]TierOptions
}

// TierOptions limits one non-owner tier.
type TierOptions struct {
	Disabled    bool
	Read        []string // paths its turns may read besides their room
	Model       string
	TurnTimeout time.Duration // 0 = DefaultGuestTurnTimeout
	MaxTurns    int           // 0 = no limit of its own
	Rate        rate.Limit    // turns per second; 0 = unlimited
	Burst       int
}

func (o *WorkDirOptions) fill() {
	setDefault(&o.CodexHome, "private")
	setDefault(&o.Cwd, o.Path)
	setDefault(&o.ShellEnv, "core")
	setDefault(&o.Sandbox, sandbox.ReadOnly)
	setDefault(&o.Envelope, task.PolicyAuto)
	setDefault(&o.TurnTimeout, DefaultTurnTimeout)
	setDefault(&o.InterruptGrace, DefaultInterruptGrace)
	setDefault(&o.QuietAfter, DefaultQuietAfter)
	setDefault(&o.ReplaceDrain, DefaultReplaceDrain)
	setDefault(&o.StartTimeout, DefaultStartTimeout)
	setDefault(&o.LockWait, threads.DefaultLockWait)
	setDefault(&o.MaxTurns, DefaultMaxTurns)
	setDefault(&o.Ageing, DefaultAgeing)
	setDefault(&o.DoneRetention, DefaultDoneRetention)
	setDefault(&o.MaxBacklogAge, DefaultMaxBacklogAge)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (o *WorkDirOptions) limits() queueLimits {
	l := queueLimits{
		maxTurns: o.MaxTurns, ageing: o.Ageing,
		tierMax: map[task.Tier]int{}, rates: map[task.Tier]*rate.Limiter{},
	}
	for t, tier := range o.Tiers {
		if t == task.Owner {
			continue
		}
		l.tierMax[t] = tier.MaxTurns
		if tier.Rate > 0 {
			l.rates[t] = rate.NewLimiter(tier.Rate, max(tier.Burst, 1))
		}
	}
	return l
}
