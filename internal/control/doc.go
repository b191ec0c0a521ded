// Package control lets people and programs talk to the running service: an
// HTTP API on a unix socket for everything that changes or shows tasks, and a
// loopback listener with metrics and health for machines that only look.
//
// It owns sockets, routes, documents and how refusals are told. It never
// changes anything itself: each operation is one call of [Backend], which is
// the supervisor. It never logs the text of a message.
//
// Who may talk: the socket is 0600 in a directory that only we may write to,
// and both ends ask the kernel who the other one is. The loopback listener
// changes nothing, shows no text and no ids, and refuses requests that a web
// page made a browser send.
package control
