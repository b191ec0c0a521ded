package stubserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses of [Main].
const (
	exitOK    = 0
	exitError = 1
	exitUsage = 2
)

// Main is the program, args being what stands behind its name. It returns the
// exit status; stdin may still be read then, as the process is about to end.
func Main(args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	e := parseEnvironment(env)
	verb := ""
	for _, a := range args {
		switch a {
		case "--version", "-V":
			fmt.Fprintf(stdout, "codex-cli %s\n", e.version())
			return exitOK
		case "--scenarios":
			list(stdout)
			return exitOK
		case "app-server", "sandbox":
			verb = a
		}
		if verb != "" {
			break
		}
	}
	switch verb {
	case "app-server":
		return appServer(args, env, stdin, stdout, stderr)
	case "sandbox":
		return sandboxVerb(args, e, stdout, stderr)
	default:
		fmt.Fprintln(stderr, "stub: only `app-server`, `sandbox`, `--version` and `--scenarios` are played")
		return exitUsage
	}
}

func list(out io.Writer) {
	for _, s := range Scenarios() {
		does := s.Does
		if s.Sticky {
			does += "; from then on in every turn of the thread"
		}
		fmt.Fprintf(out, "%-22s %-12s %s\n", s.Word, s.Args, does)
	}
	for _, s := range Settings() {
		fmt.Fprintf(out, "%-22s %-12s %s\n", s.Name, s.Args, s.Does)
	}
}

// appServer serves until stdin ends or SIGTERM comes. Neither waits for a turn,
// as with the real one on stdio.
func appServer(args, env []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s, err := New(Options{Args: args, Env: env, In: stdin, Out: stdout, Err: stderr, End: endProcess})
	if err != nil {
		fmt.Fprintln(stderr, "Error:", err)
		return exitError
	}
	if status := s.env.number(envStartExit, -1); status >= 0 {
		return status
	}
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	defer signal.Stop(term)
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background()) }() // ends with the process
	for {
		select {
		case <-term:
			if s.env[envDeaf] == "" {
				return exitOK
			}
		case err := <-served:
			if err == nil || errors.Is(err, ErrEnded) {
				return exitOK
			}
			fmt.Fprintln(stderr, "Error:", err)
			return exitError
		}
	}
}

// endProcess ends this process as asked: killed as from outside, or by exit.
func endProcess(status int) {
	if status == Killed {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	os.Exit(status)
}
