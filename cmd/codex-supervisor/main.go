// Command codex-supervisor answers task files by turns of a supervised Codex
// app-server.
//
// It owns the command line: flags, what is printed, exit codes, signals. What
// runs and why is the supervisor's business; a command either starts one or
// talks to the running one over its control socket.
//
// Output: what was asked for goes to stdout and nothing else does, so that it
// can be piped; everything said about it goes to stderr with the prefix
// "codex-supervisor: ". --json documents are a contract: fields are added,
// never renamed. Only a terminal gets colour.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/codex-supervisor/codex-supervisor/internal/proc"
)

func main() {
	proc.RunGuardIfAsked()
	env := &environment{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, catch: catchSignals}
	os.Exit(run(context.Background(), os.Args[1:], env))
}

// catchSignals makes the first SIGTERM or Ctrl-C end ctx, the second one close
// hurry, and a third one end the process.
func catchSignals(ctx context.Context) (caught context.Context, hurry chan struct{}) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	caught, cancel := context.WithCancel(ctx)
	hurry = make(chan struct{})
	go func() { // lives as long as the process
		<-signals
		cancel()
		<-signals
		close(hurry)
		<-signals
		os.Exit(exitFailure)
	}()
	return caught, hurry
}
