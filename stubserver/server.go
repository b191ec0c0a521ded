package stubserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// DefaultVersion is the Codex that is played.
const DefaultVersion = "0.171.0"

// Killed is the status that End gets for an end by SIGKILL.
const Killed = -1

// ErrEnded is what Serve returns when a scenario ended the server.
var ErrEnded = errors.New("stub: ended by a scenario")

// flushTime bounds how long a client that does not read can hold up an end.
const flushTime = time.Second

// Options make a Server.
type Options struct {
	Args []string // after the program's name: app-server and its flags
	Env  []string
	// In, Out and Err are the pipes. In and Out are closed at the end when they
	// can be, as the end of a process would close them, but for those of this
	// process.
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// End ends the process, status being an exit status or Killed; it does not
	// return. Without it the server alone ends: pipes closed, locks given up.
	End func(status int)
}

// Server is one app-server. The goroutine of Serve owns all that stands below
// out; one more reads In, one writes Out.
type Server struct {
	opt    Options
	env    environment
	config config
	home   string
	out    *output
	lines  chan []byte
	done   chan struct{} // closed when Serve's loop has ended

	clock        clock
	ended        bool
	initialized  bool
	client       clientInfo
	experimental bool
	optOut       map[string]bool
	threads      map[string]*thread
	overload     int
	lockedLeft   int
	nextAsk      int
	asks         map[int]*turn
	plays        []play
}

// New makes a server; nothing happens before Serve. It refuses what the real
// one refuses to start with.
func New(o Options) (*Server, error) {
	env := parseEnvironment(o.Env)
	s := &Server{
		opt: o, env: env, home: env.home(), lines: make(chan []byte), done: make(chan struct{}),
		optOut: map[string]bool{}, threads: map[string]*thread{}, asks: map[int]*turn{},
		overload: env.number(envOverload, 0), lockedLeft: env.number(envLocked, 0),
	}
	if s.opt.Err == nil {
		s.opt.Err = io.Discard
	}
	if _, err := os.Stat(s.home); err != nil {
		return nil, fmt.Errorf("CODEX_HOME points to %q, but that path does not exist", s.home)
	}
	var err error
	if s.config, err = readConfig(s.home, o.Args); err != nil {
		return nil, err
	}
	if s.plays, err = readPlays(env[envScript]); err != nil {
		return nil, err
	}
	s.out = newOutput(o.Out, s.complain)
	return s, nil
}

// complain writes to stderr, one line a call.
func (s *Server) complain(format string, args ...any) {
	_, _ = io.WriteString(s.opt.Err, fmt.Sprintf(format, args...)+"\n")
}

// Serve answers until its input ends, ctx does or a scenario ends it. Running
// turns are dropped, as Codex drops them.
func (s *Server) Serve(ctx context.Context) error {
	s.log(map[string]any{"start": os.Getpid(), "version": s.env.version()})
	if n := s.env.number(envStderr, 0); n > 0 {
		s.complain("%s", strings.TrimSuffix(strings.Repeat("stub is noisy today\n", n/20+1), "\n"))
	}
	read, reader := make(chan error, 1), make(chan struct{})
	go func() { // ends with In, which is closed below
		defer close(reader)
		read <- s.read()
	}()
	go s.out.run() // ends with out.close below
	err := s.loop(ctx, read)
	close(s.done)
	s.unlockAll()
	s.out.close(flushTime)
	if s.opt.Out != os.Stdout {
		<-s.out.done
	}
	if in, ok := s.opt.In.(io.Closer); ok && s.opt.In != os.Stdin {
		_ = in.Close()
		<-reader
	}
	return err
}

func (s *Server) loop(ctx context.Context, read <-chan error) error {
	for !s.ended {
		select {
		case line := <-s.lines:
			s.take(line)
		case <-s.clock.next():
			s.clock.run()
		case err := <-read:
			if s.env[envDeaf] != "" {
				read = nil
				continue
			}
			return err
		case <-ctx.Done():
			return nil
		}
	}
	return ErrEnded
}

// read takes lines of any length from In. It splits at LF only.
func (s *Server) read() error {
	in := bufio.NewReader(s.opt.In)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
				return nil // what stands behind the last LF is no line
			}
			return fmt.Errorf("read input: %w", err)
		}
		select {
		case s.lines <- line:
		case <-s.done:
			return nil
		}
	}
}

// end ends the server in the middle of whatever it does. What it has said so
// far arrives, so that a test knows where it stands.
func (s *Server) end(status int) {
	s.ended = true
	s.out.flush(flushTime)
	if s.opt.End != nil {
		s.opt.End(status)
	}
}
