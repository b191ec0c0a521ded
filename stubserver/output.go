package stubserver

import (
	"io"
	"os"
	"sync"
	"time"
)

// output writes lines in their order and never holds up the server: like the
// real one it buffers without bound what the client does not read. A client that
// closed its end is complained about once; the server lives on.
type output struct {
	w        io.Writer
	complain func(string, ...any)
	done     chan struct{} // closed when run has returned

	mu     sync.Mutex
	wake   sync.Cond
	queue  []outgoing
	closed bool
}

// outgoing is a line, or a mark that is closed when everything before it is out.
type outgoing struct {
	line []byte
	mark chan struct{}
}

func newOutput(w io.Writer, complain func(string, ...any)) *output {
	o := &output{w: w, complain: complain, done: make(chan struct{})}
	o.wake.L = &o.mu
	return o
}

func (o *output) write(line []byte) { o.add(outgoing{line: line}) }

func (o *output) add(out outgoing) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, out)
	o.wake.Signal()
}

// run writes until the output is closed and empty.
func (o *output) run() {
	defer close(o.done)
	broken := false
	for {
		o.mu.Lock()
		for len(o.queue) == 0 && !o.closed {
			o.wake.Wait()
		}
		batch := o.queue
		o.queue = nil
		o.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, out := range batch {
			if out.mark != nil {
				close(out.mark)
				continue
			}
			if broken {
				continue
			}
			if _, err := o.w.Write(out.line); err != nil {
				broken = true
				o.complain("Failed to write to stdout: %v", err)
			}
		}
	}
}

// flush waits until what was written so far is out, for a bounded time.
func (o *output) flush(patience time.Duration) {
	mark := make(chan struct{})
	o.add(outgoing{mark: mark})
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-mark:
	case <-t.C:
	}
}

// close ends the output: flushed, for a bounded time, and closed if it can be.
// This process's own stdout is left to the end of the process.
func (o *output) close(patience time.Duration) {
	o.flush(patience)
	o.mu.Lock()
	o.closed = true
	o.queue = nil
	o.wake.Signal()
	o.mu.Unlock()
	if c, ok := o.w.(io.Closer); ok && o.w != os.Stdout {
		_ = c.Close()
	}
}
