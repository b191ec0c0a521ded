// Package proc starts, guards, stops and sweeps the processes of a child.
//
// It owns the guard: a process of our own binary between the service and the
// app-server, one for each generation. It never knows what an app-server says;
// it hands the pipes through.
//
// # Why a guard
//
// An app-server runs each shell command in a session of its own and MCP servers
// in a group of their own, so no signal to a group reaches them all, and
// commands may escape on purpose (setsid, double forks, an empty environment).
// The guard is a child subreaper: whatever is orphaned below it becomes its
// child, and nobody else's. When the app-server ends, or the pipe from the
// service closes because the service is gone, the guard kills every descendant
// until none is left, and only then ends itself. One subreaper for several
// children could not tell whose orphan it got (measured on Linux).
//
// Pdeathsig makes the guard look up when the service's spawning thread dies, and
// kills the app-server when the guard dies. What remains open: when the guard
// itself is killed by SIGKILL, commands that had escaped from the app-server
// before live on.
//
// Off Linux there is no subreaper: the guard kills the app-server's process
// group, and what left it stays. This was not measured.
package proc
