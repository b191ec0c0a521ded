package main

import (
	"io"
	"log/slog"
	"time"

	"github.com/lmittmann/tint"

	"github.com/codex-supervisor/codex-supervisor/internal/config"
)

// newLogger writes what the service does: coloured for a person who watches,
// else one line of key=value or JSON for the journal.
func newLogger(w io.Writer, log config.Log) *slog.Logger {
	level := slog.LevelInfo
	switch log.Level {
	case config.LogDebug:
		level = slog.LevelDebug
	case config.LogWarn:
		level = slog.LevelWarn
	case config.LogError:
		level = slog.LevelError
	}
	opt := &slog.HandlerOptions{Level: level}
	if log.Format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(w, opt))
	}
	if _, ok := terminal(w); ok && log.Format == config.LogAuto {
		return slog.New(tint.NewTextHandler(w, &tint.Options{Level: level, TimeFormat: time.TimeOnly}))
	}
	return slog.New(slog.NewTextHandler(w, opt))
}
