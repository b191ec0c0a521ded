package sandbox_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/codex-supervisor/codex-supervisor/internal/nobody"
)

// TestMain runs the whole suite as an unprivileged user where it was started as
// root: as uid 0 the sandbox is no boundary and file modes do not bind, so half
// of the tests would prove nothing.
func TestMain(m *testing.M) {
	// The fuzzer's corpus belongs to whoever started it, and frames know no user.
	if !slices.ContainsFunc(os.Args, func(arg string) bool {
		return strings.HasPrefix(arg, "-test.fuzz") && !strings.HasPrefix(arg, "-test.fuzzcachedir")
	}) {
		nobody.Run()
	}
	goleak.VerifyTestMain(m)
}
