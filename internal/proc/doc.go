// Package proc starts, guards, stops and sweeps the processes of a child.
//
// It owns the guards: processes of our own binary between the service and the
// app-server, a pair for each generation. It never knows what an app-server
// says; it hands the pipes through.
//
// # Why a guard
//
// An app-server runs each shell command in a session of its own and MCP servers
// in a group of their own, so no signal to a group reaches them all, and
// commands may escape on purpose (setsid, double forks, an empty environment).
// The guard is a child subreaper: whatever is orphaned below it becomes its
// child, and nobody else's. When the app-server ends, or the pipe from the
// service closes because the service is gone, the guard kills every descendant
// until the kernel says that it has no children, and only then ends itself. One
// subreaper for several children could not tell whose orphan it got (measured on
// Linux).
//
// # Why a second one
//
// A guard that gets SIGKILL cannot sweep. So it is started by a keeper, which is
// a subreaper too and does nothing but sweep after it:
//
//	service ── keeper ── guard ── app-server ── commands, MCP servers
//
// Whichever of them dies first, by whatever signal, somebody who is told at once
// is left to end the rest: the guard by the end of the control pipe (service) or
// by Pdeathsig (keeper), the keeper by the guard's end; the app-server gets
// Pdeathsig SIGKILL from the guard. [Process.Done] fires when the last of the
// pair is gone.
//
// # What remains
//
// When guard and keeper are killed in the same instant the app-server dies with
// them, but what had escaped from it before moves to pid 1 and lives on;
// [SweepStale] finds only what is still below a recorded process. What another
// service starts on a command's behalf (systemd-run, at, a container daemon, an
// already running tmux) was never below us. A process that became another user,
// or that waits in the kernel for a dead disk, cannot be ended; it is named in
// [Exit].Err after some seconds.
//
// # Off Linux
//
// There is no subreaper: one guard kills the app-server's process group, and what
// can still be found below it when the service is gone; what escaped stays. This
// was compiled, not measured.
package proc
