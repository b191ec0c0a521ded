package rpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// BenchmarkLines takes in deltas of about 200 bytes and turns of 1 MB. Floor is
// the same bytes split at newlines and checked for being JSON, with no client.
func BenchmarkLines(b *testing.B) {
	for name, size := range map[string]int{"delta": 60, "megabyte": 1 << 20} {
		line := `{"method":"item/agentMessage/delta","params":{"threadId":"01a22f45-5f91-7412-af11-ef3d725971ba","turnId":"01a22f45-5fd6-73d2-ad6d-5976a94c9605","delta":"` + strings.Repeat("x", size) + `"}}` + "\n"
		b.Run(name+"/client", func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			seen := 0
			in, other := io.Pipe()
			defer func() { _ = in.Close() }()
			client := rpc.New(rpc.Options{In: other, Out: &repeat{line: line, left: b.N}, OnNotification: func(rpc.Notification) { seen++ }})
			_ = client.Serve(context.Background())
			if seen != b.N {
				b.Fatalf("%d of %d lines", seen, b.N)
			}
		})
		b.Run(name+"/floor", func(b *testing.B) {
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			r := bufio.NewReaderSize(&repeat{line: line, left: b.N}, 2<<20)
			for range b.N {
				text, err := r.ReadSlice('\n')
				if err != nil || !json.Valid(text) {
					b.Fatal(err)
				}
			}
		})
	}
}

// repeat is a line, left times.
type repeat struct {
	line string
	rest string
	left int
}

func (r *repeat) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.left == 0 {
			return 0, io.EOF
		}
		r.left--
		r.rest = r.line
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
