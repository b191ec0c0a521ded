package stubserver

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/codex-supervisor/codex-supervisor/rpc"
)

// DefaultVersion is the Codex that is played.
const DefaultVersion = "0.171.0"

// Options make a Server.
type Options struct {
	Args []string // after the program's name: app-server and its flags
	Env  []string
	In   io.Reader
	Out  io.Writer
	Err  io.Writer
	// Kill ends the process as SIGKILL does; it must not return.
	Kill func()
}

// Server is one app-server. Serve's goroutine reads requests and owns the
// threads; turns run beside it and change them under the lock.
type Server struct {
	opt     Options
	env     map[string]string
	home    string
	version string
	config  map[string]string // -c key=value

	out   sync.Mutex // one line at a time
	turns sync.WaitGroup

	mu           sync.Mutex
	initialized  bool
	experimental bool
	threads      map[string]*thread
	overload     int
	nextRequest  int
	answers      map[int]chan json.RawMessage
}

// thread is one loaded thread.
type thread struct {
	id           string
	ephemeral    bool
	cwd          string
	profile      *rpc.ProfileRef
	sandbox      rpc.SandboxInfo
	entries      []entry
	lock         *os.File
	running      *turn
	unsubscribed bool
}

// Main is the program: it returns the exit status.
func Main(args, env []string, in io.Reader, out, errOut io.Writer) int {
	for _, a := range args {
		switch a {
		case "--version", "-V":
			fmt.Fprintf(out, "codex-cli %s\n", lookup(env, "STUB_VERSION", DefaultVersion))
			return 0
		case "--scenarios":
			for _, s := range append(Scenarios(), Env()...) {
				fmt.Fprintf(out, "%-22s %-7s %s\n", s.Word, s.Args, s.Does)
			}
			return 0
		}
	}
	if len(args) == 0 || args[0] != "app-server" {
		fmt.Fprintln(errOut, "stub: only `app-server`, `--version` and `--scenarios` are played")
		return 2
	}
	s := New(Options{Args: args, Env: env, In: in, Out: out, Err: errOut, Kill: killSelf})
	return s.run()
}

func lookup(env []string, name, otherwise string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return otherwise
}

// New makes a server; nothing happens before Serve.
func New(o Options) *Server {
	s := &Server{
		opt: o, env: map[string]string{}, config: map[string]string{}, threads: map[string]*thread{}, answers: map[int]chan json.RawMessage{},
	}
	for _, e := range o.Env {
		k, v, _ := strings.Cut(e, "=")
		s.env[k] = v
	}
	s.home = s.env["CODEX_HOME"]
	if s.home == "" {
		s.home = filepath.Join(s.env["HOME"], ".codex")
	}
	s.version = lookup(o.Env, "STUB_VERSION", DefaultVersion)
	s.overload = s.number("STUB_OVERLOAD", 0)
	for i, a := range o.Args {
		if a == "-c" && i+1 < len(o.Args) {
			k, v, _ := strings.Cut(o.Args[i+1], "=")
			s.config[k] = v
		}
	}
	return s
}

func (s *Server) number(name string, otherwise int) int {
	n, err := strconv.Atoi(s.env[name])
	if err != nil {
		return otherwise
	}
	return n
}

// Serve answers until its input ends or ctx does. Running turns are dropped, as
// Codex drops them.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer s.turns.Wait()
	defer s.unlockAll()
	defer cancel()
	s.log(map[string]any{"start": os.Getpid()})
	if n := s.number("STUB_STDERR", 0); n > 0 {
		_, _ = io.WriteString(s.opt.Err, strings.Repeat("noise\n", n/6))
	}
	in := bufio.NewReader(s.opt.In)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil
		}
		var m incoming
		if json.Unmarshal(line, &m) != nil || (m.Method == "" && m.ID == nil) || s.env["STUB_MUTE"] != "" {
			fmt.Fprintln(s.opt.Err, "Failed to deserialize JSONRPCMessage")
			continue
		}
		if m.Method == "" {
			s.takeAnswer(m)
			continue
		}
		if m.ID == nil {
			continue // a notification: initialized
		}
		s.handle(ctx, m)
	}
}

func (s *Server) unlockAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.threads {
		if t.lock != nil {
			_ = t.lock.Close()
			t.lock = nil
		}
	}
}

type incoming struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// write sends one line. The keys are in Codex's order.
func (s *Server) write(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		fmt.Fprintln(s.opt.Err, "stub: encode:", err)
		return
	}
	s.raw(append(line, '\n'))
}

func (s *Server) raw(line []byte) {
	s.out.Lock()
	defer s.out.Unlock()
	_, _ = s.opt.Out.Write(line)
}

func (s *Server) reply(id json.RawMessage, result any) {
	s.write(struct {
		ID     json.RawMessage `json:"id"`
		Result any             `json:"result"`
	}{id, result})
}

type wireError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (s *Server) fail(id json.RawMessage, code int, format string, args ...any) {
	s.write(struct {
		Error wireError       `json:"error"`
		ID    json.RawMessage `json:"id"`
	}{wireError{code, fmt.Sprintf(format, args...)}, id})
}

func (s *Server) notify(method string, params any) {
	s.write(struct {
		Method      string `json:"method"`
		Params      any    `json:"params"`
		EmittedAtMs int64  `json:"emittedAtMs"`
	}{method, params, time.Now().UnixMilli()})
}

// grease says something that no client knows.
func (s *Server) grease() {
	s.notify("stub/grease", map[string]any{"threadId": "nobody", "newField": []int{1}})
}

func (s *Server) log(v map[string]any) {
	path := s.env["STUB_LOG"]
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	defer f.Close()
	line, err := json.Marshal(v)
	if err == nil {
		_, _ = f.Write(append(line, '\n'))
	}
}

// ask sends a request to the client and waits for its answer.
func (s *Server) ask(ctx context.Context, method string, params any) string {
	s.mu.Lock()
	id := s.nextRequest
	s.nextRequest++
	answer := make(chan json.RawMessage, 1)
	s.answers[id] = answer
	s.mu.Unlock()
	s.write(map[string]any{"id": id, "method": method, "params": params})
	select {
	case raw := <-answer:
		return string(raw)
	case <-ctx.Done():
		return ""
	}
}

func (s *Server) takeAnswer(m incoming) {
	id, err := strconv.Atoi(string(m.ID))
	if err != nil {
		return
	}
	s.mu.Lock()
	answer := s.answers[id]
	delete(s.answers, id)
	s.mu.Unlock()
	if answer == nil {
		return
	}
	if m.Error != nil {
		answer <- m.Error
	} else {
		answer <- m.Result
	}
}
