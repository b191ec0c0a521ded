package proc

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// guardName is argv[0] of a guard, by which it knows what it is.
const guardName = "codex-supervisor-guard"

// Descriptors of a guard beside the app-server's three.
const (
	guardControl = 3 // read: one byte for each order; its end means "sweep"
	guardStatus  = 4 // write: one JSON line for each thing that happened
	guardFiles   = 5 // descriptors from here on were not meant for it
)

// Orders to a guard.
const (
	orderTerm = 'T' // SIGTERM to the app-server
	orderKill = 'K' // end everything
)

// duty is what a guard was started to do. On the command line it stands behind
// the guard's name: ROLE NOFILE PROGRAM ARGUMENT...
type duty struct {
	keeper int // pid of the keeper this guard was started by; 0: none, it is the keeper itself
	noFile uint64
	argv   []string
}

func (d duty) args() []string {
	return append([]string{guardName, strconv.Itoa(d.keeper), strconv.FormatUint(d.noFile, 10)}, d.argv...)
}

func dutyOf(args []string) (duty, error) {
	if len(args) < 4 {
		return duty{}, errors.New("too few arguments")
	}
	keeper, err := strconv.Atoi(args[1])
	if err != nil {
		return duty{}, err
	}
	noFile, err := strconv.ParseUint(args[2], 10, 64)
	if err != nil {
		return duty{}, err
	}
	return duty{keeper: keeper, noFile: noFile, argv: args[3:]}, nil
}

// report is one line on the guard's status pipe.
type report struct {
	Started *Identity `json:"started,omitempty"` // the app-server
	Guard   *Identity `json:"guard,omitempty"`   // with Started: who started it
	Failed  string    `json:"failed,omitempty"`  // the program could not be started
	Errno   int       `json:"errno,omitempty"`
	Ended   bool      `json:"ended,omitempty"` // the app-server, how follows
	Code    int       `json:"code,omitempty"`
	Signal  string    `json:"signal,omitempty"`
	Swept   int       `json:"swept,omitempty"`
	Left    []string  `json:"left,omitempty"` // what could not be ended
}

// RunGuardIfAsked must be the first statement of main, and of TestMain where
// children are started: when this process was started as a guard it is one, and
// the call does not return.
func RunGuardIfAsked() {
	if len(os.Args) == 0 || os.Args[0] != guardName {
		return
	}
	d, err := dutyOf(os.Args)
	if err != nil {
		os.Exit(2) // not started by us
	}
	// Nothing below may inherit the guard's own pipes: their end is a message.
	syscall.CloseOnExec(guardControl)
	syscall.CloseOnExec(guardStatus)
	control, status := os.NewFile(guardControl, "control"), os.NewFile(guardStatus, "status")
	if control == nil || status == nil {
		os.Exit(2)
	}
	code := runGuard(d, control, status)
	if os.Getenv("GOCOVERDIR") == "" {
		// What else os.Exit does is to write coverage counters and, under the race
		// detector, to wait a second.
		syscall.Exit(code)
	}
	os.Exit(code)
}

func tell(status io.Writer, r report) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	// When nobody listens any more there is nobody to tell.
	_, _ = status.Write(append(line, '\n'))
}

// failure is the report of a program that could not be started.
func failure(err error) report {
	r := report{Failed: err.Error()}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}

// ending is the report of an app-server that has ended; state is nil when that
// is not known.
func ending(state *os.ProcessState, signalName func(syscall.Signal) string) report {
	r := report{Ended: true, Code: -1}
	if state == nil {
		return r
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Signal = signalName(ws.Signal())
		return r
	}
	r.Code = state.ExitCode()
	return r
}

// exitCode is a guard's own exit status, by the shell's custom.
func exitCode(state *os.ProcessState) int {
	if state == nil {
		return 1
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// readOrders passes the orders on and closes the channel when the service is gone.
func readOrders(control io.Reader, orders chan<- byte) {
	defer close(orders)
	buf := make([]byte, 1)
	for {
		if _, err := control.Read(buf); err != nil {
			return
		}
		orders <- buf[0]
	}
}

// withoutService drops what the service manager told us: a child that pinged
// our watchdog or took our sockets would speak for us.
func withoutService(env []string) []string {
	kept := make([]string, 0, len(env)) // never nil, which would mean "inherit"
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "WATCHDOG_") || strings.HasPrefix(name, "LISTEN_") {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
