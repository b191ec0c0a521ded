// Package stubserver plays `codex app-server`: a program that speaks the same
// JSON lines on stdio as codex 0.171.0 and behaves, on request, as badly as the
// real one was ever seen to. Tests run it as a real process, and so does the
// demo; the service's own paths never use it.
//
// It owns the wire behaviour and the threads it stores under CODEX_HOME, which
// survive kill -9 as Codex's do. It confines nothing, has no model and knows
// nothing of tasks or tiers. Shapes, orders and error texts are those of the
// real binary, measured on 0.171.0; its own messages are written down here a
// second time, apart from the client's structs, so that a misspelt field on one
// side does not match the same slip on the other.
//
// # Scenarios
//
// What a turn does is written in the message it answers, as words in double
// brackets: "[[slow 20]] [[commentary]] tell me". Words can be combined. Each has
// a row in [Scenarios]. Where the prompt has a frame around the message (a line
// "<tag>", later "Message:", later "</tag>"), only the words of the message count.
//
// What the server as a whole does is set by environment variables: [Settings].
//
// # Script file
//
// STUB_SCRIPT names a file of JSON lines, for turns whose text cannot hold the
// words. The words of an entry are added to those of the message:
//
//	{"match": "^weather", "do": "[[stall]]"}   turns whose message matches the regexp
//	{"match": "x", "times": 2, "do": "..."}    the first two of those
//	{"do": "[[die]]"}                          the next turn that no entry before it took
//
// How often an entry was used is kept under CODEX_HOME, so that a script goes on
// after the process was killed.
//
// # Log
//
// STUB_LOG names a file that gets one JSON line for each process ({"start": pid}),
// one for each new thread ({"thread": id, "threadStart": params as they came}) and
// one for each prompt that a model would have seen: thread, turn, clientId,
// ephemeral, sha256 and text of the prompt, the number of user messages and of
// items that the thread had before, and merged when turn/start met a
// running turn. A prompt that was run twice stands there twice.
//
// # Grease
//
// Every connection is sprinkled with notifications, items and fields that do not
// exist, so that whoever talks to it has to tolerate the unknown.
package stubserver
