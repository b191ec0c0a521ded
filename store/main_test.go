package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/store"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeUntilKilled(path)
	}
	os.Exit(m.Run())
}

func mustOpen(tb testing.TB, path string) *store.DB {
	tb.Helper()
	db, err := store.Open(path, store.Options{LockWait: 100 * time.Millisecond})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func newDB(tb testing.TB) *store.DB {
	tb.Helper()
	return mustOpen(tb, filepath.Join(tb.TempDir(), "ledger.db"))
}

// must is for calls that cannot fail here.
func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// at is a moment n seconds into the tests' own day.
func at(n int) time.Time { return time.Date(2026, 3, 4, 5, 6, n, 789, time.UTC) }
