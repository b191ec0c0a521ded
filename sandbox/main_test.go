package sandbox_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain runs the whole suite as an unprivileged user where it was started as
// root: as uid 0 the sandbox is no boundary and file modes do not bind, so half
// of the tests would prove nothing.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 && os.Getenv(unprivileged) == "" {
		os.Exit(runUnprivileged())
	}
	goleak.VerifyTestMain(m)
}

const unprivileged = "SANDBOX_TEST_UNPRIVILEGED"
