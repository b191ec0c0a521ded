package supervisor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/nobody"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/stubserver"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

const (
	// playCodex makes the test binary play the app-server when it is started as one.
	playCodex = "CODEX_SUPERVISOR_TEST_PLAYS_CODEX"
	// serveHouse makes it a service of its own: the value is the options, as JSON.
	serveHouse = "CODEX_SUPERVISOR_TEST_SERVES"
)

// TestMain runs the suite as a user to whom nothing belongs where it was started
// as root: guests are refused there, and their confinement would prove nothing.
func TestMain(m *testing.M) {
	proc.RunGuardIfAsked()
	if os.Getenv(playCodex) != "" {
		os.Exit(stubserver.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
	}
	if raw := os.Getenv(serveHouse); raw != "" {
		os.Exit(serve(raw))
	}
	nobody.Run()
	goleak.VerifyTestMain(m)
}

// serve is a service in a process of its own, to be killed.
func serve(raw string) int {
	_ = os.Unsetenv(serveHouse)
	var w supervisor.WorkDirOptions
	if err := json.Unmarshal([]byte(raw), &w); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	s, err := supervisor.New(supervisor.Options{
		WorkDirs: []supervisor.WorkDirOptions{w}, Version: "test", Registerer: prometheus.NewRegistry(),
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := s.Serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
