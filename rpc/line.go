package rpc

import (
	"bufio"
	"errors"
	"io"
)

const (
	readBuffer = 64 << 10
	// keepEnds is how much of each end of an oversized line is kept. The ids stand
	// within a few hundred bytes of an end (codex app-server 0.171.0, measured).
	keepEnds = 64 << 10
	// keepBuffer is the largest buffer that is kept for the next long line.
	keepBuffer = 1 << 20
)

// line is one line without its newline.
type line struct {
	// data is the line; valid until the next read. nil when oversized.
	data []byte
	// size is the line's length, read or skipped.
	size int
	// head and tail are the two ends of an oversized line.
	head, tail []byte
	// cut: the stream ended before a newline came.
	cut bool
}

func (l line) oversized() bool { return l.head != nil }

// lineReader splits at LF and at nothing else: JSON strings may hold raw U+2028
// and the like.
type lineReader struct {
	r   *bufio.Reader
	max int
	buf []byte
}

func newLineReader(r io.Reader, limit int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, readBuffer), max: limit}
}

// next returns a line, or the error that ended the stream. What stands before an
// end without a newline comes as a last line with cut set.
func (l *lineReader) next() (line, error) {
	part, err := l.r.ReadSlice('\n')
	if err == nil && len(part)-1 <= l.max {
		return line{data: part[:len(part)-1], size: len(part) - 1}, nil
	}
	if cap(l.buf) > keepBuffer {
		l.buf = nil
	}
	l.buf = l.buf[:0]
	var out line
	for {
		ended := err == nil // the newline is the last byte of part
		if ended {
			part = part[:len(part)-1]
		}
		out.size += len(part)
		switch {
		case out.oversized():
			out.tail = appendTail(out.tail, part)
		case out.size > l.max:
			// From here on nothing is kept but the two ends.
			whole := append(l.buf, part...)
			out.head = append([]byte{}, whole[:min(len(whole), keepEnds)]...)
			out.tail = appendTail(nil, whole)
			l.buf = nil
		default:
			l.buf = append(l.buf, part...)
		}
		if ended {
			break
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if out.size == 0 {
				return line{}, err
			}
			out.cut = true // the error comes again at the next read
			break
		}
		part, err = l.r.ReadSlice('\n')
	}
	if out.oversized() {
		out.tail = out.tail[max(0, len(out.tail)-keepEnds):]
	} else {
		out.data = l.buf
	}
	return out, nil
}

// appendTail keeps at least the last keepEnds bytes and at most twice as many.
func appendTail(tail, part []byte) []byte {
	if len(part) >= keepEnds {
		return append(tail[:0], part[len(part)-keepEnds:]...)
	}
	if len(tail)+len(part) > 2*keepEnds {
		tail = append(tail[:0], tail[len(tail)-keepEnds:]...)
	}
	return append(tail, part...)
}
