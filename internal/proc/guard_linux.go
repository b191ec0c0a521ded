package proc

import (
	"bytes"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// guard is a subreaper and the one process it was started for: the app-server,
// or, when it is the keeper, the guard of the app-server. The goroutine that
// runs it owns it.
type guard struct {
	child   *os.Process
	ended   chan *os.ProcessState
	signals chan os.Signal
	keeper  int // pid of the keeper, 0 when this is the keeper
	patience
	swept int
}

// runGuard does a guard's whole work and returns its exit status. It never
// returns while something below it lives that can be ended.
func runGuard(d duty, control, status *os.File) int {
	// Pdeathsig of what is started follows this thread, so it must not end.
	runtime.LockOSThread()
	// There is one for each child, for weeks, and it does next to nothing.
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(20)
	closeInherited()
	g := &guard{
		ended: make(chan *os.ProcessState, 1), signals: make(chan os.Signal, 16),
		keeper: d.keeper, patience: guardPatience,
	}
	// Handlers rather than SIG_IGN, which the app-server would inherit. Whoever
	// signals the guard means the service or everything (systemctl kill, killall);
	// the service gives its orders through the pipe.
	signal.Notify(g.signals, syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGPIPE, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU)
	defer signal.Stop(g.signals)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		tell(status, failure(os.NewSyscallError("become subreaper", err)))
		return 1
	}
	if d.keeper == 0 {
		return g.keep(d, control, status)
	}
	return g.guard(d, control, status)
}

// keep starts the guard proper and watches over it: a process that is killed
// cannot sweep, so there is one above it that can.
func (g *guard) keep(d duty, control, status *os.File) int {
	g.patience = keeperPatience
	d.keeper = os.Getpid()
	err := g.start("/proc/self/exe", d.args(), &os.ProcAttr{
		Env:   os.Environ(),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr, control, status},
		// One that it can catch: it must sweep, not die.
		Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM},
	})
	if err != nil {
		tell(status, failure(err))
		return 1
	}
	_ = control.Close() // only the guard takes orders
	state := g.attend(nil)
	left := g.sweep() // nothing, unless the guard was killed
	tell(status, report{Swept: g.swept, Left: left})
	return exitCode(state)
}

// guard starts the app-server, waits for its end or for an order, and sweeps.
func (g *guard) guard(d duty, control, status *os.File) int {
	if os.Getppid() != d.keeper {
		return 1 // the keeper has died before we could be told
	}
	setNoFile(d.noFile)
	restore := levelOOMScore("/proc/self/oom_score_adj")
	err := g.start(d.argv[0], d.argv, &os.ProcAttr{
		Env:   withoutService(os.Environ()),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	restore()
	if err != nil {
		tell(status, failure(err))
		return 1
	}
	child, self := identify(g.child.Pid), identify(os.Getpid())
	tell(status, report{Started: &child, Guard: &self})
	orders := make(chan byte)
	go readOrders(control, orders) // ends with the process: the pipe may outlive it
	state := g.attend(orders)
	left := g.sweep()
	if state == nil && left == nil {
		state = <-g.ended // collected already, by the goroutine that waits for it
	} else if state == nil {
		select {
		case state = <-g.ended:
		default: // it is among those left
		}
	}
	r := ending(state, unix.SignalName)
	r.Swept, r.Left = g.swept, left
	tell(status, r)
	return exitCode(state)
}

// start starts the one process and lets go of its pipes: only it may hold them,
// else their end would not be seen.
func (g *guard) start(program string, argv []string, attr *os.ProcAttr) error {
	child, err := os.StartProcess(program, argv, attr)
	if err != nil {
		return err
	}
	g.child = child
	go func() { // ends with the child, which the sweep makes sure of
		state, _ := child.Wait()
		g.ended <- state
		close(g.ended)
	}()
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		defer null.Close()
		for fd := range 3 {
			_ = unix.Dup3(int(null.Fd()), fd, 0)
		}
		return nil
	}
	for fd := range 3 {
		_ = unix.Close(fd)
	}
	return nil
}

// attend returns when the sweep is due, with the child's state if it has ended.
// Until then it collects orphans: they come to a subreaper while the child lives.
func (g *guard) attend(orders <-chan byte) *os.ProcessState {
	for {
		select {
		case state := <-g.ended:
			return state
		case s := <-g.signals:
			switch {
			case s == syscall.SIGCHLD:
				g.reap()
			case g.keeper != 0 && os.Getppid() != g.keeper:
				return nil // Pdeathsig: the keeper was killed
			}
		case o, ok := <-orders:
			switch {
			case !ok, o == orderKill:
				return nil
			case o == orderTerm:
				_ = g.child.Signal(syscall.SIGTERM)
			}
		}
	}
}

// closeInherited closes what leaked into this process: descriptors that whoever
// started the service had left open. Our own are all close-on-exec, so those
// that are not came from outside.
func closeInherited() {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd < guardFiles {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
}

// setNoFile sets the soft limit on descriptors for the program to come.
func setNoFile(n uint64) {
	var l unix.Rlimit
	if n == 0 || unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return
	}
	// syscall's, since only that tells the Go runtime, which has raised this
	// process's own limit to the hard one, not to put the first value back in
	// the child.
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: min(n, l.Max), Max: l.Max})
}

// levelOOMScore takes a protection from the kernel's OOM killer, which the
// service may have, off this process while it starts the app-server, and returns
// what puts it back. An app-server that grew to gigabytes under a score of -900
// had other processes killed in its place.
func levelOOMScore(file string) (restore func()) {
	raw, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(raw, []byte("-")) {
		return func() {}
	}
	_ = os.WriteFile(file, []byte("0"), 0)
	return func() { _ = os.WriteFile(file, raw, 0) }
}
