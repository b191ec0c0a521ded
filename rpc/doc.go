// Package rpc speaks the app-server's JSON-RPC over a pair of pipes: the line
// codec, the client, typed methods, notifications and the answers to what the
// server asks.
//
// It owns the connection from the first byte to the reason of its end. It never
// starts or ends a process, and it knows nothing of tasks, tiers or files.
//
// # The connection
//
// [New] takes the two ends, [Client.Serve] runs the connection until it ends,
// and every call that is then still waiting gets that reason as a
// [*ConnectionError]. Calls may be made from any goroutine, each has a deadline,
// and none waits behind a writer that is blocked: lines go out through a queue.
//
// # What comes in
//
// Notifications reach Options.OnNotification in wire order, on one goroutine,
// through an unbounded queue, so a slow handler never stops the reader. Requests
// of the server are declined at once ([Decline]) and then reported through
// Options.OnServerRequest. Lines that are no message are skipped and counted;
// a line over Options.MaxLine is skipped without being kept, but its ids are
// found, so that nobody waits for what was in it.
//
// # Open sets
//
// Codex adds methods, fields, item types and error kinds every few weeks.
// Everything decoded here keeps or ignores what it does not know; a field of an
// unexpected type is left at its zero value and never fails a whole message.
//
// The wire structs serve both directions, so that a scripted server can be built
// from them.
package rpc
