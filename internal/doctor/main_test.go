package doctor_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/nobody"
	"github.com/codex-supervisor/codex-supervisor/internal/proc"
	"github.com/codex-supervisor/codex-supervisor/stubserver"
)

// playCodex makes the test binary play Codex when it is started as one.
const playCodex = "CODEX_SUPERVISOR_TEST_PLAYS_CODEX"

// TestMain runs the suite as a user to whom nothing belongs where it was started
// as root: there no sandbox binds, and no mode of a file does.
func TestMain(m *testing.M) {
	proc.RunGuardIfAsked()
	if os.Getenv(playCodex) != "" {
		os.Exit(stubserver.Main(os.Args[1:], os.Environ(), os.Stdin, os.Stdout, os.Stderr))
	}
	nobody.Run()
	goleak.VerifyTestMain(m)
}
