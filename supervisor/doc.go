// Package supervisor is the life of the service: work dirs, their children,
// the order in which tasks run, one attempt from picked to settled, recovery
// after a crash, shutdown, and the metrics of all that.
//
// It never parses a task file (internal/task does), never renders a page
// (internal/control does), never speaks JSON-RPC itself (rpc does) and never
// decides what a tier may do (sandbox does).
//
// # Who owns what
//
// A [Supervisor] owns its work dirs. Each work dir has one goroutine that owns
// the queue, the set of running tasks and what is known of the child; it takes
// messages and blocks on no I/O. The child has one goroutine of its own that
// owns the process and its state: one transition function is the only writer.
// Each running task has one goroutine that walks it from picked to settled.
// Serve of each returns when everything below it has ended.
//
// # What may be relied on
//
// An attempt is committed to the ledger before turn/start is sent, the intent
// to stop a turn before turn/interrupt, and the reply's text before the result
// file is linked into place. After a crash the rows left open are settled by
// asking the thread what became of the newest attempt, so that each task gets
// exactly one result and no prompt reaches an owner's thread twice.
package supervisor
