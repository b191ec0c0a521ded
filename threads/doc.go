// Package threads decides which Codex thread a task runs on: it opens, resumes,
// starts, binds and retires threads, and asks a thread what became of a turn.
//
// It never starts a turn, and it never falls back silently: only a thread that
// Codex says does not exist may be followed by a fresh one, and the answer then
// says so. A dead connection, a lock held by another process or a bound thread
// that is missing are errors.
package threads
