// Package model is a scriptable Responses API on loopback. It drives the real
// codex binary in tests and in the demo: no login, no network, an answer at
// once.
//
// It owns the HTTP endpoint, the server-sent events that codex expects, a
// small vocabulary of words that steer a turn, and a record of every request,
// which is the proof of what a model saw. It never decides anything about
// threads or tiers, and the daemon's own paths never link it.
//
// # Words
//
// The newest user message of a request steers the answer. A directive is
// written [[word arguments]] and ends at the first ]].
//
//	[[remember X]]        acknowledge X; nothing is kept here
//	[[recall]]            answer with every remembered X that stands in the request's own input
//	[[reply TEXT]]        answer exactly TEXT
//	[[big N]]             answer of N bytes
//	[[commentary]]        a commentary message before the final answer
//	[[empty [N]]]         complete without a message (with N: only the first N times)
//	[[slow N]]            answer in N pieces, Options.SlowStep apart
//	[[stall]]             response.created, then nothing until the client goes away
//	[[stall-headers]]     not even headers
//	[[cut]]               the stream ends in the middle of the answer
//	[[http STATUS BODY]]  that status, BODY as JSON text or as the message of an error
//	[[usage-limit [S]]]   429 usage_limit_reached, resets in S seconds (default 3600)
//	[[context-window [N]]] the stream fails with context_length_exceeded (with N: only the first N times)
//	[[overloaded]]        the stream fails with server_is_overloaded
//	[[sh COMMAND]]        call exec_command, then go on with its output
//	[[view PATH]]         call view_image
//	[[patch TEXT]]        call apply_patch
//	[[tool NAME JSON]]    call any function
//
// Tool directives run one after another, in order, one per request; the others
// apply once all of them have an output. So "[[sh touch x]] [[stall]]" has a
// side effect and then hangs. Without a directive the answer repeats the
// message's own words.
//
// The server keeps no memory of conversations: what [[recall]] answers is what
// codex itself sent along, so a thread that forgot is seen to have forgotten.
package model
