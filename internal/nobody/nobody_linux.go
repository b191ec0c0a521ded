// Package nobody runs a test binary as a user to whom nothing on the machine belongs.
// Tests of confinement prove nothing as uid 0, where a sandbox is no boundary and
// file modes do not bind. It is for tests only.
package nobody

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// UID is nobody's: no files of the machine belong to it.
const UID = 54321

// marker tells a test binary that it runs as nobody.
const marker = "CODEX_SUPERVISOR_TEST_AS_NOBODY"

// Run is for TestMain: as root it runs the whole test binary again as nobody and
// ends with its status; else it returns.
func Run() {
	if os.Getuid() == 0 && os.Getenv(marker) == "" {
		os.Exit(rerun())
	}
}

// rerun runs a copy of the test binary as UID, with a home outside /tmp, and
// returns its exit status. Nothing is left behind.
func rerun() int {
	status, err := reexec()
	if err != nil {
		fmt.Fprintln(os.Stderr, "run the tests as an unprivileged user:", err)
		return 1
	}
	return status
}

func reexec() (status int, err error) {
	home, err := os.MkdirTemp("/var/lib", "codex-supervisor-test-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	// go test builds into a directory that only root may enter.
	binary, tmp, counters := filepath.Join(home, filepath.Base(os.Args[0])), filepath.Join(home, "tmp"), filepath.Join(home, "counters")
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	if err := copyFile(self, binary, 0o755); err != nil {
		return 0, err
	}
	for _, dir := range []string{home, tmp, counters} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return 0, err
		}
		if err := os.Chown(dir, UID, UID); err != nil {
			return 0, err
		}
	}
	// Files that go test wants to find afterwards are written below home and
	// copied to where it looks.
	var args []string
	copies := map[string]string{}
	for _, arg := range os.Args[1:] {
		name, value, ok := strings.Cut(arg, "=")
		switch {
		case ok && (name == "-test.coverprofile" || name == "-test.testlogfile"):
			inner := filepath.Join(tmp, strings.TrimPrefix(name, "-test."))
			copies[inner] = value
			args = append(args, name+"="+inner)
		case ok && name == "-test.gocoverdir":
			args = append(args, name+"="+counters)
		default:
			args = append(args, arg)
		}
	}
	outer := os.Getenv("GOCOVERDIR")
	cmd := exec.Command(binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "HOME="+home, "TMPDIR="+tmp, "USER=nobody-test", marker+"=1", "CODEX_HOME=")
	if outer != "" {
		// Processes that the tests start leave their counters there.
		cmd.Env = append(cmd.Env, "GOCOVERDIR="+counters)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: UID, Gid: UID}}
	runErr := cmd.Run()
	if outer != "" {
		err = errors.Join(err, copyAll(counters, outer))
	}
	for inner, outer := range copies {
		if copyErr := copyFile(inner, outer, 0o644); copyErr != nil && !errors.Is(copyErr, os.ErrNotExist) {
			err = errors.Join(err, copyErr)
		}
	}
	var exit *exec.ExitError
	if errors.As(runErr, &exit) {
		return max(1, exit.ExitCode()), err
	}
	return 0, errors.Join(err, runErr)
}

func copyFile(from, to string, mode os.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func copyAll(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		errs = append(errs, copyFile(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), 0o644))
	}
	return errors.Join(errs...)
}
