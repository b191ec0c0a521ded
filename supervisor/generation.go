package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/durable"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/rpc"
	"github.com/codex-supervisor/codex-supervisor/sandbox"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/threads"
)

// generation is one incarnation of the child: a process, its connection, and
// what is only true of this incarnation (loaded threads, profile ids, limits).
type generation struct {
	number  uint64
	pid     int
	version string
	started time.Time
	env     []string         // of the process
	sources [2]durable.Stamp // of the login and the configuration it began with
	process *proc.Process
	client  *rpc.Client
	router  *router
	session *threads.Session
	sandbox *sandbox.Child
	stderr  *proc.Ring
	metrics *workdirMetrics
	log     *slog.Logger
	hold    *hold // known at the handshake
	child   *child

	// ended is closed when the process and all its descendants are gone and
	// everything it said has been delivered.
	ended chan struct{}
	exit  proc.Exit

	limits     atomic.Pointer[rpc.RateLimits]
	confined   atomic.Pointer[confinement]
	goroutines sync.WaitGroup
}

// confinement is what the canary probe of this generation found.
type confinement struct {
	why    reason.Reason // "" = non-owner work may run
	detail string
}

// OldestVersion is the first with thread/turns/list and excludeTurns outside
// the experimental API (codex 0.151.0, measured).
var OldestVersion = [3]int{0, 151, 0}

// connect speaks JSON-RPC over the process's pipes. Its goroutines end when the
// connection does; stop waits for them.
func (g *generation) connect(w *WorkDir) {
	g.client = rpc.New(rpc.Options{
		In: g.process.Stdin, Out: g.process.Stdout, Logger: g.log,
		OnNotification:  g.receive,
		OnServerRequest: g.declined,
		OnBadLine: func(b rpc.BadLine) {
			g.metrics.m.badLines.WithLabelValues(g.metrics.name, string(b.Kind)).Inc()
		},
	})
	g.session = w.threads.NewSession(g.client, g.number)
	g.goroutines.Go(func() { g.stderr.Drain(g.process.Stderr) })
	g.goroutines.Go(func() { _ = g.client.Serve(context.Background()) })
}

// lost fires when the connection has ended, whoever ended it.
func (g *generation) lost() <-chan struct{} { return g.client.Done() }

// lostBecause names the end of a connection that we did not ask for. The exit
// status, which is known once the process is gone, wins over it in stop.
func (g *generation) lostBecause() childEnd {
	detail := ""
	if err := g.client.Err(); err != nil {
		detail = oneLine(err.Error(), 200)
	}
	return childEnd{why: reason.ChildProtocol, detail: detail}
}

// Times of the ladder that ends a process: stdin closed, TERM, KILL.
var stopTimes = proc.StopTimes{Stdin: 3 * time.Second, Term: 2 * time.Second, Kill: 10 * time.Second}

// stop ends the process and returns when nothing of it is left.
func (g *generation) stop(end *childEnd) {
	g.exit = proc.Stop(context.Background(), g.process, stopTimes)
	_ = g.client.Close()
	g.goroutines.Wait()
	g.process.Close()
	if !end.ours {
		switch {
		case g.exit.Signal != "":
			end.why = reason.ChildKilled
		case end.why == reason.ChildProtocol:
			end.why = reason.ChildExited
		}
	}
	if g.exit.Swept > 0 {
		g.metrics.m.orphans.WithLabelValues(g.metrics.name).Add(float64(g.exit.Swept))
	}
	close(g.ended)
}

func (g *generation) exitText() string {
	switch {
	case g.exit.Err != nil:
		return oneLine(g.exit.Err.Error(), 200)
	case g.exit.Signal != "":
		return "signal " + g.exit.Signal
	default:
		return "exit status " + strconv.Itoa(g.exit.Code)
	}
}

func (g *generation) lastStderr() string {
	lines := g.stderr.Lines()
	if len(lines) == 0 {
		return ""
	}
	return oneLine(strings.Join(lines[max(0, len(lines)-5):], " | "), 600)
}

// handshake brings a fresh connection to the point where turns may start.
func (g *generation) handshake(ctx context.Context) error {
	init, err := g.client.Initialize(ctx, rpc.InitializeParams{
		ClientInfo:   rpc.ClientInfo{Name: "codex-supervisor", Title: "codex-supervisor", Version: "1"},
		Capabilities: &rpc.Capabilities{ExperimentalAPI: true},
	})
	if err != nil {
		return g.startFailed(ctx, err)
	}
	g.version = init.Version()
	if err := checkVersion(g.version); err != nil {
		return &startError{why: reason.VersionTooOld, err: err}
	}
	account, err := g.client.AccountRead(ctx, rpc.AccountReadParams{})
	if err != nil {
		return g.startFailed(ctx, err)
	}
	if account.LoginMissing() {
		g.hold = &hold{why: reason.LoginMissing, detail: "run `codex login` as the service's user", since: time.Now()}
	}
	return nil
}

// startFailed names what went wrong while the child was coming up.
func (g *generation) startFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil || rpc.FaultOf(err) == rpc.FaultTimeout:
		return &startError{why: reason.ChildStartTimeout, err: err}
	case rpc.FaultOf(err) == rpc.FaultConnection:
		return &startError{why: reason.ChildExited, err: err}
	default:
		return &startError{why: reason.ChildProtocol, err: err}
	}
}

// receive is the connection's notification handler: wire order, one goroutine.
func (g *generation) receive(n rpc.Notification) {
	switch n.Method {
	case "account/rateLimits/updated":
		if l, err := rpc.DecodeRateLimits(n); err == nil {
			g.noteLimits(l.RateLimits)
		}
	case "thread/closed":
		g.session.Closed(n.ThreadID)
	case "configWarning":
		if w, err := rpc.DecodeConfigWarning(n); err == nil && w.Path != "" && strings.Contains(w.Summary, "Invalid configuration") {
			g.child.order(childOrder{what: orderHold, gen: g.number, hold: hold{
				why: reason.ConfigBroken, detail: oneLine(w.Path+": "+w.Details, 200), since: time.Now(),
			}})
		}
	default:
	}
	if !rpc.KnownNotification(n.Method) {
		g.metrics.m.unknownNotes.WithLabelValues(g.metrics.name).Inc()
	}
	if n.ThreadID != "" {
		g.router.deliver(n.ThreadID, turnEvent{note: &n})
	}
}

// declined records a request of the app-server that was answered with no.
func (g *generation) declined(r rpc.ServerRequest) {
	g.metrics.m.declined.WithLabelValues(g.metrics.name).Inc()
	g.log.Info("request of the app-server declined", "method", r.Method)
	if r.ThreadID != "" {
		g.router.deliver(r.ThreadID, turnEvent{request: &r})
	}
}

// noteLimits merges a sparse update: null means "not in this update".
func (g *generation) noteLimits(update rpc.RateLimits) {
	merged := update
	if old := g.limits.Load(); old != nil {
		if merged.Primary == nil {
			merged.Primary = old.Primary
		}
		if merged.Secondary == nil {
			merged.Secondary = old.Secondary
		}
	}
	g.limits.Store(&merged)
}

// limitResets says when the usage limit that was hit resets: the latest reset
// among the windows that are used up. Zero when Codex did not say.
func (g *generation) limitResets(now time.Time) time.Time {
	l := g.limits.Load()
	if l == nil {
		return time.Time{}
	}
	var at time.Time
	for _, w := range []*rpc.RateLimitWindow{l.Primary, l.Secondary} {
		if w == nil || w.ResetsAt == nil || w.UsedPercent < 100 {
			continue
		}
		if t := time.Unix(*w.ResetsAt, 0); t.After(now) && t.After(at) {
			at = t
		}
	}
	return at
}

// guests says whether non-owner work may run on this generation.
func (g *generation) guests() confinement {
	if c := g.confined.Load(); c != nil {
		return *c
	}
	return confinement{why: reason.GuestsUnconfined, detail: "not proven yet"}
}

// proven says whether the probe has ended, either way.
func (g *generation) proven() bool { return g.confined.Load() != nil }

func checkVersion(v string) error {
	if v == "" {
		return nil // a build of somebody's own; what it cannot do will show
	}
	var got [3]int
	if _, err := fmt.Sscanf(v, "%d.%d.%d", &got[0], &got[1], &got[2]); err != nil {
		return nil
	}
	for i := range got {
		if got[i] != OldestVersion[i] {
			if got[i] < OldestVersion[i] {
				return fmt.Errorf("codex %s is too old; %d.%d.%d or newer is needed", v, OldestVersion[0], OldestVersion[1], OldestVersion[2])
			}
			return nil
		}
	}
	return nil
}

// exec runs one command on this very child under one of its profiles.
func (g *generation) exec(ctx context.Context, p rpc.CommandExecParams) (rpc.CommandExecReply, error) {
	reply, err := g.client.CommandExec(ctx, p)
	if rpc.FaultOf(err) == rpc.FaultExperimental {
		// Second best: the same profile on this host, not on the running child.
		return g.sandbox.SandboxExec(g.env)(ctx, p)
	}
	return reply, err
}

// record is the generation as the store keeps it.
func (g *generation) record() store.Generation {
	return store.Generation{
		N: g.number, Child: g.process.Child(), Guard: g.process.Guard(), Version: g.version, Started: g.started,
	}
}
