package doctor

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/codex-supervisor/codex-supervisor/internal/task"
)

// key looks at the envelope's HMAC key. It says nothing of what is in it.
func key(w WorkDir) Check {
	const mend = "let the gateway make a new one, or write 64 hex digits into it: openssl rand -hex 32"
	info, err := os.Stat(w.KeyFile)
	switch {
	case w.KeyFile == "" || errors.Is(err, fs.ErrNotExist):
		if w.Envelope == task.PolicyStrict {
			return fail(HMACKey, "set hmac_key to the gateways' key file, or --envelope auto", "no key, and envelope = strict: every task is refused")
		}
		return ok(HMACKey, "none, so envelope %s means %s: files are believed without a stamp", named(w.Envelope), w.Envelope.Resolve(false))
	case err != nil:
		return fail(HMACKey, fmt.Sprintf("chown it to the service's user (uid %d here)", os.Geteuid()), "%s", plain(err))
	case !info.Mode().IsRegular():
		return fail(HMACKey, mend, "%s is no regular file", w.KeyFile)
	}
	f, err := os.Open(w.KeyFile)
	if err != nil {
		return fail(HMACKey, fmt.Sprintf("chown it to the service's user (uid %d here)", os.Geteuid()), "%s", plain(err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return fail(HMACKey, mend, "%s", plain(err))
	}
	if _, err := task.ParseKey(text); err != nil {
		return fail(HMACKey, mend, "%s is no key: 64 hex digits are wanted", w.KeyFile)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return fail(HMACKey, "chmod 600 "+w.KeyFile+", and a new key if others have read it", "mode %04o: whoever reads it can stamp tasks", mode)
	}
	return ok(HMACKey, "well-formed, mode 0600; envelope %s means %s", named(w.Envelope), w.Envelope.Resolve(true))
}

func named(p task.Policy) task.Policy {
	if p == "" {
		return task.PolicyAuto
	}
	return p
}
