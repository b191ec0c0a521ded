package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/store"
)

// writerEnv makes this test program a writer that is killed.
const writerEnv = "STORE_TEST_WRITER"

const crashTasks = 7

// step is the n-th write of the crash test, n from 1. It can be done to the
// ledger and to a model of it.
type step struct {
	n     int
	id    string
	begin bool
}

func stepOf(n int) step { return step{n: n, id: fmt.Sprint("task-", n%crashTasks), begin: n%3 == 0} }

func (s step) change(r *store.Row) error {
	r.Tokens = int64(s.n)
	r.Detail = fmt.Sprint("step ", s.n)
	return nil
}

func (s step) do(db *store.DB) error {
	if s.begin {
		_, err := db.Begin(store.Row{TaskID: s.id, Seen: at(1)}, store.Attempt{Kind: store.Again, TurnID: fmt.Sprint(s.n)})
		return err
	}
	_, err := db.Update(s.id, s.change)
	if errors.Is(err, store.ErrNoRow) {
		return nil
	}
	return err
}

// model is what the first n steps leave behind: tokens and attempts of each task.
type model map[string][2]int

func modelOf(n int) model {
	m := model{}
	for i := 1; i <= n; i++ {
		s := stepOf(i)
		row, known := m[s.id]
		switch {
		case s.begin:
			m[s.id] = [2]int{row[0], row[1] + 1}
		case known:
			m[s.id] = [2]int{s.n, row[1]}
		}
	}
	return m
}

// writeUntilKilled does one step after the other, going on where the ledger is,
// and says when each was acknowledged.
func writeUntilKilled(path string) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	n, err := strconv.Atoi(os.Getenv(writerEnv + "_FROM"))
	if err != nil {
		fail(err)
	}
	db, err := store.Open(path, store.Options{LockWait: 10 * time.Second})
	if err != nil {
		fail(err)
	}
	for n++; ; n++ {
		if err := stepOf(n).do(db); err != nil {
			fail(err)
		}
		if _, err := fmt.Println(n); err != nil {
			fail(err)
		}
	}
}

// TestCrash: a writer is killed at a random moment, again and again on the same
// ledger. Whatever was acknowledged is there, whole; of what was not, at most
// the one write under way.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	acknowledged, inFlight := 0, 0
	for round := range 25 {
		// Round 0 is killed around the making of the file, the others after some writes.
		last := killWriter(t, path, acknowledged, rand.IntN(40)*min(round, 1))
		db := mustOpen(t, path)
		check(t, db.Check())
		got := model{}
		for _, row := range must[[]store.Row](t)(db.Rows(crashTasks + 1)) {
			// A row keeps its newest attempts only: their number tells how many there were.
			got[row.TaskID] = [2]int{int(row.Tokens), row.Attempts[len(row.Attempts)-1].N}
		}
		switch {
		case reflect.DeepEqual(got, modelOf(last)):
			acknowledged = last
		case reflect.DeepEqual(got, modelOf(last+1)):
			acknowledged = last + 1
			inFlight++
		default:
			t.Fatalf("round %d: after %d acknowledged writes the ledger holds %v, want %v", round, last, got, modelOf(last))
		}
		check(t, db.Close())
	}
	t.Logf("%d writes, %d of 25 kills between commit and acknowledgement", acknowledged, inFlight)
}

// killWriter starts a writer, kills it once it has acknowledged some writes, and
// returns the last step that it acknowledged.
func killWriter(t *testing.T, path string, from, writes int) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), writerEnv+"="+path, writerEnv+"_FROM="+strconv.Itoa(from))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	kill := func() {
		for spin := rand.IntN(300_000); spin > 0; spin-- { // up to a millisecond: somewhere in the next writes
			runtime.KeepAlive(spin)
		}
		check(t, cmd.Process.Kill())
	}
	if writes == 0 {
		kill()
	}
	last := from
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		n, err := strconv.Atoi(lines.Text())
		if err != nil || n != last+1 {
			t.Fatalf("writer says %q after %d", lines.Text(), last)
		}
		if last = n; last-from == writes {
			kill()
		}
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != -1 {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	return last
}
