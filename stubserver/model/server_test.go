package model_test

import (
	"testing"

	"github.com/codex-supervisor/codex-supervisor/stubserver/model"
)

func mustNew(tb testing.TB, opts model.Options) *model.Server {
	tb.Helper()
	srv, err := model.New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := srv.Close(); err != nil {
			tb.Error(err)
		}
	})
	return srv
}
