package sandbox_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/nobody"
)

// TestMain runs the whole suite as an unprivileged user where it was started as
// root: as uid 0 the sandbox is no boundary and file modes do not bind, so half
// of the tests would prove nothing.
func TestMain(m *testing.M) {
	nobody.Run()
	goleak.VerifyTestMain(m)
}
