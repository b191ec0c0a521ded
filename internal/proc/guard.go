package proc

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
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
)

// Orders to a guard.
const (
	orderTerm = 'T' // SIGTERM to the app-server
	orderKill = 'K' // end everything
)

// report is one line on the guard's status pipe.
type report struct {
	Started *Identity `json:"started,omitempty"`
	Failed  string    `json:"failed,omitempty"` // the program could not be started
	Errno   int       `json:"errno,omitempty"`
	Ended   bool      `json:"ended,omitempty"`
	Code    int       `json:"code,omitempty"`
	Signal  string    `json:"signal,omitempty"`
	Swept   int       `json:"swept,omitempty"`
	Left    int       `json:"left,omitempty"` // could not be ended
}

// RunGuardIfAsked must be the first statement of main, and of TestMain where
// children are started: when this process was started as a guard it is one, and
// the call does not return.
func RunGuardIfAsked() {
	if len(os.Args) == 0 || os.Args[0] != guardName {
		return
	}
	control := os.NewFile(guardControl, "control")
	status := os.NewFile(guardStatus, "status")
	// The app-server must not inherit the guard's own pipes.
	syscall.CloseOnExec(guardControl)
	syscall.CloseOnExec(guardStatus)
	// argv: the guard's name, --nofile=N, the program, its arguments.
	if len(os.Args) < 3 {
		os.Exit(2)
	}
	if n, ok := strings.CutPrefix(os.Args[1], "--nofile="); ok {
		if limit, err := strconv.ParseUint(n, 10, 64); err == nil {
			raiseNoFile(limit)
		}
	}
	os.Exit(runGuard(os.Args[2:], control, status))
}

func tell(status io.Writer, r report) {
	line, err := json.Marshal(r)
	if err != nil {
		return
	}
	// When nobody listens any more there is nobody to tell.
	_, _ = status.Write(append(line, '\n'))
}

// StartError is a program that could not be started. It unwraps to the
// operating system's reason (fs.ErrNotExist, fs.ErrPermission, ...).
type StartError struct {
	Program string
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %q: %v", e.Program, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }

// startError rebuilds the reason that a guard reported.
func startError(program string, r report) *StartError {
	if r.Errno != 0 {
		return &StartError{Program: program, Err: syscall.Errno(r.Errno)}
	}
	return &StartError{Program: program, Err: fmt.Errorf("%s: %w", r.Failed, fs.ErrInvalid)}
}
