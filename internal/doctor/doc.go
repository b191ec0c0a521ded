// Package doctor asks whether this machine and this configuration can do what
// a work dir needs, before anybody waits for an answer that cannot come.
//
// It owns the checks: their ids, what each of them looks at, what it says and
// what it advises. It never mends anything, never runs a turn, never touches
// the CODEX_HOME of a running service, and leaves nothing behind: files that it
// tries to write are removed, and the Codex that it asks is a child of its own
// with a throw-away home, which ends with the check.
//
// # What holds
//
// A check is ok, warn or fail. Warn is what works now, or could not be looked
// at because something before it failed. Only fail makes the whole fail.
//
// # Bounds
//
// Every check has a deadline and all together less than [Limit]. A file system
// that does not answer is a failed check, not a doctor that hangs.
package doctor
