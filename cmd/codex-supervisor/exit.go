package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
	"github.com/codex-supervisor/codex-supervisor/internal/control"
	"github.com/codex-supervisor/codex-supervisor/store"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// The exit codes of all commands. `envelope verify` has its own, which say the
// verdict.
const (
	exitOK        = 0
	exitFailure   = control.ExitFailure
	exitUsage     = control.ExitUsage
	exitNoService = control.ExitNoService
	exitBusy      = 5
)

const exitHelp = `
Exit status:
  0  done
  1  it did not work; the line on stderr says what to try
  2  the command line or the configuration is wrong
  4  no service is running
  5  another service holds the work dir or the control socket
`

// exitError is an end that has its words and its code already.
type exitError struct {
	code    int
	message string // "" = everything has been said
	try     string
}

func (e *exitError) Error() string { return e.message }

func usage(try, format string, args ...any) error {
	return &exitError{code: exitUsage, message: fmt.Sprintf(format, args...), try: try}
}

// verdict is what is said of an error: the message, what to try, the exit code.
func verdict(err error) (message, try string, code int) {
	message, code = err.Error(), exitFailure
	var (
		own     *exitError
		refused *control.Error
		busy    *supervisor.BusyError
		inUse   *control.InUseError
		wrong   config.Errors
		damaged *store.DamagedError
		newer   *store.NewerError
	)
	switch {
	case errors.As(err, &own):
		return own.message, own.try, own.code
	case errors.As(err, &refused):
		return refused.Message, refused.Hint, refused.Exit()
	case errors.As(err, &busy):
		return message, "`codex-supervisor status` to see it; stop it first, or give --work another directory", exitBusy
	case errors.As(err, &inUse):
		return message, "stop it, give this one a --socket of its own, or run both work dirs in one service by --config", exitBusy
	case errors.As(err, &wrong):
		return message, "`codex-supervisor config check` after mending it, or `codex-supervisor run --help`", exitUsage
	case errors.Is(err, control.ErrNoService):
		return message, "codex-supervisor run --work DIR; or name its socket by --socket", exitNoService
	case errors.As(err, &damaged):
		return message, "restore the file from a backup, or move it and the file *.exists beside it away to start without any memory of tasks and threads", exitFailure
	case errors.As(err, &newer):
		return message, "run the newer codex-supervisor that wrote it, or name another directory by --state", exitFailure
	case errors.Is(err, store.ErrLocked):
		return message, "`codex-supervisor status` asks the service that has it open", exitBusy
	case errors.Is(err, syscall.EADDRINUSE):
		return message, "another port by --listen 127.0.0.1:PORT, or --listen off", exitFailure
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return message, "an address of this machine: --listen 127.0.0.1:9464, or --listen off", exitFailure
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return message, "make room on the disk", exitFailure
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return message, "check who owns it and whether this user may write there; --state DIR puts the state elsewhere", exitFailure
	case errors.Is(err, context.Canceled):
		return "interrupted", "", exitFailure
	}
	return message, "", code
}
