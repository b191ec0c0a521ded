// Package store keeps what must survive the service: for each channel its
// owner's thread and the last ephemeral ones, the ledger of tasks and their
// attempts, the generations of the child, and the schema version.
//
// It is the only package that imports bbolt. It never decides policy: which row
// may change how is the supervisor's business; that a change is whole and
// durable before the call returns is the store's.
//
// # Layout
//
// Buckets: meta, channels (by channel key), ledger (by task id), open (ids of
// rows that are not settled), seen (time of arrival and id, for newest first),
// generations (by number). Values are JSON and are decoded inside the
// transaction that read them.
//
// # Schema
//
// A version counts the migrations that have run; they run forward only, all in
// one transaction. Any change of what is stored is a migration, a field more
// included, and a ledger of a newer version is refused as *[NewerError]: an
// older program would drop what it does not know.
//
// # Damage
//
// bbolt takes an empty file for a new database and can crash the process on a
// truncated one. A marker beside the file says that a ledger must exist, and the
// head of the file is looked at, under the file's lock, before bbolt maps it; a
// ledger that is missing or damaged is refused as *[DamagedError], never
// replaced by an empty one.
package store
