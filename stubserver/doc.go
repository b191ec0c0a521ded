// Package stubserver plays `codex app-server`: a program that speaks the same
// JSON lines on stdio as codex 0.171.0 and behaves, on request, as badly as the
// real one was ever seen to. Tests run it as a real process, and so does the
// demo; the service's own paths never use it.
//
// It owns the wire behaviour and the threads it stores under CODEX_HOME, which
// survive kill -9 as Codex's do. It has no model: what a turn does is written in
// its prompt, as words in double brackets (see [Scenarios]), or in the
// environment (see [Env]).
//
// Every connection is sprinkled with notifications and fields that do not exist,
// so that whoever talks to it has to tolerate the unknown.
package stubserver
