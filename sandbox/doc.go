// Package sandbox turns a tier into what a Codex turn may do.
//
// It owns the child's command-line overrides (permission profiles under random
// ids), the thread parameters of owners and guests, the check of what the
// app-server says is in force, the canary probe that proves the confinement,
// the frame around a prompt, guest rooms with their attachments, and the
// private CODEX_HOME. It never reads task files, never starts turns and never
// decides when something runs.
//
// # Why profiles and not `sandbox`
//
// Codex's plain read-only sandbox lets a guest read every other room's results,
// the Codex configuration and login, and the process environment. A permission
// profile with a closed list of readable paths does not; it is given on the
// child's command line, selected per thread by `config.default_permissions`,
// and shown in the reply as activePermissionProfile. A `sandbox` field on the
// same request silently wins over it, so none is ever sent (codex app-server
// 0.171.0, measured).
//
// # Fail closed
//
// Everything here that can fail ends in "no non-owner turn": a profile that
// does not load, a reply that differs in one field, a probe that cannot run, a
// canary without a positive control, a uid that is root.
package sandbox
