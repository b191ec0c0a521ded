package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// environment is what a command sees of the world.
type environment struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	// catch is called by commands that have something to end in order; all
	// others die of a signal, as programs do. May be nil.
	catch func(context.Context) (caught context.Context, hurry chan struct{})
	// hurry is closed when the user asks a second time for an end.
	hurry  chan struct{}
	socket string // of --socket
}

// say is talk: one line to stderr.
func (e *environment) say(format string, args ...any) {
	fmt.Fprintf(e.stderr, "codex-supervisor: "+format+"\n", args...)
}

// terminal reports whether w is one, and its width.
func terminal(w io.Writer) (columns int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile {
		return 0, false
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}

// linkedVersion is set by the linker in releases (-X main.linkedVersion=...).
var linkedVersion string

// version is the release, else what the build knows of its commit.
func version() string {
	if linkedVersion != "" {
		return linkedVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}
