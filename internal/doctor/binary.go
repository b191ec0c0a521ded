package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

// The versions of Codex: what is needed, and what the suite has been run with.
var (
	oldest    = release(supervisor.OldestVersion)
	newest    = release{0, 171, 0}
	testedOut = fmt.Sprintf("%d.%d to %d.%d", oldest[0], oldest[1], newest[0], newest[1])
)

// release is a version's three numbers.
type release [3]int

// parseRelease finds the version in what `codex --version` prints:
// "codex-cli 0.171.0" (measured).
func parseRelease(text string) (release, bool) {
	for word := range strings.FieldsSeq(text) {
		var r release
		if n, _ := fmt.Sscanf(strings.TrimPrefix(word, "v"), "%d.%d.%d", &r[0], &r[1], &r[2]); n == 3 {
			return r, true
		}
	}
	return release{}, false
}

// minor compares without the last number.
func (r release) minor(o release) int {
	if r[0] != o[0] {
		return r[0] - o[0]
	}
	return r[1] - o[1]
}

func (r release) String() string { return fmt.Sprintf("%d.%d.%d", r[0], r[1], r[2]) }

const installCodex = "npm install -g @openai/codex, or name the program by --codex PROGRAM"

func found(w WorkDir) Check {
	if w.NotFound != nil {
		return fail(BinaryFound, installCodex, "%s", w.NotFound)
	}
	program := w.Codex[0]
	info, err := os.Stat(program)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fail(BinaryFound, installCodex, "%s does not exist", program)
	case err != nil:
		return fail(BinaryFound, "check who may enter its directories: the service runs as this user", "%s", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return fail(BinaryFound, installCodex, "%s is no program", program)
	}
	return ok(BinaryFound, "%s", program)
}

// native says whether the program is Codex itself. A script between costs a
// process that can die, and the guests' sandbox, which shows them the program
// that is configured and no other, cannot start the binary behind it.
func native(w WorkDir) Check {
	f, err := os.Open(w.Codex[0])
	if err != nil {
		// It may be run and not read: that is no script.
		return warn(BinaryNative, "", "not readable, so it is not known what it is: %s", err)
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head)
	switch magic := string(head[:n]); {
	case strings.HasPrefix(magic, "#!"):
		return fail(BinaryNative, "name the native program by --codex: below npm's @openai/codex it is vendor/*/bin/codex", "%s is a script, not Codex itself", w.Codex[0])
	case magic == "\x7fELF", magic == "\xcf\xfa\xed\xfe", magic == "\xca\xfe\xba\xbe":
	default:
		return warn(BinaryNative, "", "%s is of no kind that is known here", w.Codex[0])
	}
	if len(w.Codex) > 1 {
		return ok(BinaryNative, "a native program, with arguments: %s", strings.Join(w.Codex[1:], " "))
	}
	if w.Configured != "" && w.Configured != w.Codex[0] && strings.Contains(w.Codex[0], "/vendor/") {
		return ok(BinaryNative, "native, taken from beside npm's script")
	}
	return ok(BinaryNative, "a native program")
}

func (d *doctor) version(ctx context.Context, w WorkDir) Check {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	text, err := d.output(ctx, w, "--version")
	if err != nil {
		return fail(BinaryVersion, "run it by hand as this user: "+w.Codex[0]+" --version", "codex --version: %s", err)
	}
	got, known := parseRelease(text)
	upgrade := "npm install -g @openai/codex@" + newest.String()
	switch {
	case !known:
		return warn(BinaryVersion, upgrade+", unless this build is meant", "unknown version %q; tested are %s", oneLine(text, 60), testedOut)
	case got.minor(oldest) < 0:
		return fail(BinaryVersion, upgrade, "codex %s is too old: %s or newer is needed", got, oldest)
	case got.minor(newest) > 0:
		return warn(BinaryVersion, "nothing, if it works; else "+upgrade, "codex %s is newer than what was tested (%s)", got, testedOut)
	}
	if running := d.childVersion(w); running != "" && running != got.String() {
		return warn(BinaryVersion, "codex-supervisor restart "+w.Name, "codex %s on disk, but the service's child is still %s", got, running)
	}
	return ok(BinaryVersion, "codex %s, in the tested range %s", got, testedOut)
}
