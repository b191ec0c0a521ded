// Package threads decides which Codex thread a task runs on: it opens, resumes,
// starts, binds and retires threads, and asks a thread what became of a turn.
//
// It never starts a turn, and it never falls back silently: only a thread that
// Codex says cannot be gone on with may be followed by a fresh one, and the
// answer then says so. A dead connection, a lock held by another process or a
// bound thread that is missing are errors.
//
// # Owners and others
//
// An owner's channel has one durable thread. It is put on record once its first
// turn has begun, since Codex stores nothing of a thread without turns. Everybody
// else's task gets an ephemeral thread of its own, which is listed with the
// channel and never resumed.
package threads
