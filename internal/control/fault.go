package control

import (
	"context"
	"errors"
	"net/http"

	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// Code is a class of refusals: those of the supervisor, and the API's own.
type Code = supervisor.Code

// The API's own codes.
const (
	CodeInternal  Code = "internal"
	CodeForbidden Code = "forbidden"
	CodeNoRoute   Code = "no_route"
)

// Error is a refusal as it travels: what happened and what to try.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Exits of the command line.
const (
	ExitFailure   = 1
	ExitUsage     = 2
	ExitNoService = 4
)

// meanings is the one table of what a code means to HTTP and to a shell.
var meanings = map[Code]struct{ status, exit int }{
	supervisor.CodeNotFound:  {http.StatusNotFound, ExitFailure},
	supervisor.CodeAmbiguous: {http.StatusBadRequest, ExitUsage},
	supervisor.CodeConflict:  {http.StatusConflict, ExitFailure},
	supervisor.CodeInvalid:   {http.StatusBadRequest, ExitUsage},
	supervisor.CodeDown:      {http.StatusServiceUnavailable, ExitFailure},
	CodeForbidden:            {http.StatusForbidden, ExitFailure},
	CodeNoRoute:              {http.StatusNotFound, ExitFailure},
	CodeInternal:             {http.StatusInternalServerError, ExitFailure},
}

// Exit is the exit code of a command that this refusal ends.
func (e *Error) Exit() int {
	if m, ok := meanings[e.Code]; ok {
		return m.exit
	}
	return ExitFailure
}

func (e *Error) status() int {
	if m, ok := meanings[e.Code]; ok {
		return m.status
	}
	return http.StatusInternalServerError
}

// errorOf is any error as a refusal.
func errorOf(err error) *Error {
	var own *Error
	var op *supervisor.OperationError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &op):
		return &Error{Code: op.Code, Message: op.Message, Hint: op.Hint}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &Error{
			Code: supervisor.CodeDown, Message: "the work dir did not answer in time: " + err.Error(),
			Hint: "try again; `codex-supervisor status` says how it is",
		}
	}
	return &Error{Code: CodeInternal, Message: err.Error(), Hint: "the log of the service may say more"}
}
