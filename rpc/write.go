package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	// writeChunk is what one write deadline covers, so that a long prompt is not
	// taken for a server that does not read.
	writeChunk = 64 << 10
	// drainAfterWriteError is how long the server's output may go on once its
	// input is broken. What it still says can be the end of a turn.
	drainAfterWriteError = 2 * time.Second
)

// outgoing is a line to be written.
type outgoing struct {
	id   uint64 // of a request of ours; 0 otherwise
	data []byte
}

// WriteObject queues a message. The library holds its send lock while we are in
// here and ignores contexts, so waiting for the pipe would hang every caller.
func (s *stream) WriteObject(obj any) error {
	data, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	select {
	case <-s.inputBroken:
		return &ConnectionError{Reason: EndWriteFailed, Err: s.inputErr}
	default:
	}
	s.outgoing.push(outgoing{id: s.sending, data: append(data, '\n')})
	return nil
}

// write sends queued lines until the connection ends.
func (s *stream) write() {
	for {
		select {
		case <-s.ended:
			return
		case <-s.outgoing.ready:
		}
		for {
			o, ok := s.outgoing.pop()
			if !ok {
				break
			}
			if err := s.writeLine(o.data); err != nil {
				s.writeFailed(err)
				return
			}
		}
	}
}

func (s *stream) writeLine(data []byte) error {
	for len(data) > 0 {
		chunk := data[:min(len(data), writeChunk)]
		if err := s.writeBounded(chunk); err != nil {
			return err
		}
		data = data[len(chunk):]
	}
	return nil
}

func (s *stream) writeBounded(chunk []byte) error {
	// Pipes made by os.Pipe take a deadline. Others are closed under the write.
	if d, ok := s.in.(interface{ SetWriteDeadline(time.Time) error }); !ok || d.SetWriteDeadline(time.Now().Add(s.writeTimeout)) != nil {
		watchdog := time.AfterFunc(s.writeTimeout, func() { s.end(EndWriteTimeout, nil) })
		defer watchdog.Stop()
	}
	_, err := s.in.Write(chunk)
	return err
}

// writeFailed ends the connection. A write that timed out may have left half a
// line behind, so nothing can follow it. Any other failure means that the server
// went away or is being stopped: its last words are still read.
func (s *stream) writeFailed(err error) {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		s.end(EndWriteTimeout, nil)
		return
	}
	s.inputErr = err
	close(s.inputBroken)
	if errors.Is(err, os.ErrClosed) {
		<-s.ended // we closed it ourselves, so somebody is seeing to the end
		return
	}
	timer := time.NewTimer(drainAfterWriteError)
	defer timer.Stop()
	select {
	case <-s.ended:
	case <-timer.C:
		s.end(EndWriteFailed, err)
	}
}
