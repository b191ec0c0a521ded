//go:build !linux

package sandbox_test

import (
	"fmt"
	"os"
)

func runUnprivileged() int {
	fmt.Fprintln(os.Stderr, "these tests do not run as root here; start them as an ordinary user")
	return 1
}
