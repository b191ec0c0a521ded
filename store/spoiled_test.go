package store_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/store"
)

// TestOpen_SpoiledPage spoils one page after the other. Whatever page it is, the
// damage comes up when the ledger is opened, or there is none that anybody meets:
// bbolt ends the process on such a page when it is first wanted.
func TestOpen_SpoiledPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	db := mustOpen(t, path)
	for i := range 60 {
		row := store.Row{TaskID: fmt.Sprintf("task-%03d", i), Seen: time.Unix(int64(i), 0), Detail: fmt.Sprintf("%01000d", i)}
		must[store.Row](t)(db.Begin(row, store.Attempt{ThreadID: "thread"}))
		check(t, db.SaveOwner(fmt.Sprint("key-", i%20), "name", store.Thread{ID: "thread"}))
	}
	check(t, db.Close())
	whole := must[[]byte](t)(os.ReadFile(path))
	page := os.Getpagesize()
	for name, spoil := range map[string]func([]byte){
		"Zeros": func(p []byte) { clear(p) },
		"Head":  func(p []byte) { p[0]++ },
		// Only in JSON: a lone byte may be part of a page's table, and nothing tells
		// that such a table was another one.
		"Value": func(p []byte) { copy(p, bytes.ReplaceAll(p, []byte(`{"`), []byte(`{!`))) },
	} {
		refused := 0
		for at := 2 * page; at < len(whole); at += page {
			spoiled := append([]byte{}, whole...)
			spoil(spoiled[at : at+page])
			check(t, os.WriteFile(path, spoiled, 0o600))
			db, err := store.Open(path, store.Options{})
			if err != nil {
				refused++
				if wrong := (*store.DamagedError)(nil); !errors.As(err, &wrong) {
					t.Errorf("%s, page %d: %v is no *DamagedError", name, at/page, err)
				}
				continue
			}
			rows, err := db.Rows(1000)
			if err != nil || len(rows) != 60 {
				t.Errorf("%s, page %d: opened, and then %d rows, %v", name, at/page, len(rows), err)
			}
			channels, err := db.Channels()
			if err != nil || len(channels) != 20 {
				t.Errorf("%s, page %d: opened, and then %d channels, %v", name, at/page, len(channels), err)
			}
			check(t, db.Close())
		}
		if refused < 10 {
			t.Errorf("%s: only %d of %d pages were missed", name, refused, len(whole)/page)
		}
	}
}
