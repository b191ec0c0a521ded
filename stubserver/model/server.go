package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Defaults of [Options].
const (
	// DefaultModel is the model's name in the rendered configuration.
	DefaultModel = "mock-model"
	// DefaultSlowStep is the pause of [[slow N]] between pieces.
	DefaultSlowStep = 100 * time.Millisecond
	// DefaultKeep is the number of requests kept; older ones are forgotten.
	DefaultKeep = 4096
	// maxBody bounds a request. Codex caps a prompt at 1,048,576 characters,
	// but pictures and long threads come on top.
	maxBody = 256 << 20
)

// Options configure a [Server]. The zero value is good for most tests.
type Options struct {
	// Model is the name in [Server.ConfigTOML]; default [DefaultModel].
	Model string
	// OnRequest is called before each answer, on the request's goroutine: the
	// place to kill a child, or to wait.
	OnRequest func(Request)
	// Reply, when set, answers instead of the words; false falls back to them.
	Reply func(Request) (Reply, bool)
	// SlowStep is the pause of [[slow N]] between pieces.
	SlowStep time.Duration
	// Keep is the number of requests that [Server.Requests] remembers.
	Keep int
}

// Server is the endpoint. It listens on a free port of 127.0.0.1.
type Server struct {
	opts     Options
	listener net.Listener
	http     *http.Server
	ctx      context.Context // ends stalled answers; the server owns it from New to Close
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu       sync.Mutex
	requests []Request
	total    int
	closing  bool
	counts   map[string]int
	changed  chan struct{} // closed and renewed at each new request
}

// New starts a server. [Server.Close] stops it.
func New(opts Options) (*Server, error) {
	if opts.Model == "" {
		opts.Model = DefaultModel
	}
	if opts.SlowStep <= 0 {
		opts.SlowStep = DefaultSlowStep
	}
	if opts.Keep <= 0 {
		opts.Keep = DefaultKeep
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the model: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{opts: opts, listener: listener, ctx: ctx, cancel: cancel, counts: map[string]int{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", s.respond)
	s.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	// Owned by the server; ends when Close closes the listener.
	s.wg.Go(func() { _ = s.http.Serve(listener) })
	return s, nil
}

// URL is the base URL for base_url, with the version path.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() + "/v1" }

// Close ends every answer, also stalled ones, and waits for all goroutines.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.cancel()
	err := s.http.Close()
	s.wg.Wait()
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close the model: %w", err)
	}
	return nil
}

// ConfigTOML is a config.toml for a CODEX_HOME that uses this server. With it
// codex needs no login (account/read gives requiresOpenaiAuth false).
func (s *Server) ConfigTOML() string {
	// A Go quoted string of a model name and a URL is a TOML basic string.
	return fmt.Sprintf(`model = %s
model_provider = "mock"

[model_providers.mock]
name = "mock"
base_url = %s
wire_api = "responses"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
`, strconv.Quote(s.opts.Model), strconv.Quote(s.URL()))
}

// Requests returns what arrived so far, oldest first.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Total is the number of requests ever received, forgotten ones included.
func (s *Server) Total() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Wait returns the first request for which match holds, also one that has
// arrived already, or the context's error.
func (s *Server) Wait(ctx context.Context, match func(Request) bool) (Request, error) {
	for {
		s.mu.Lock()
		for _, req := range s.requests {
			if match(req) {
				s.mu.Unlock()
				return req, nil
			}
		}
		changed := s.changed
		s.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return Request{}, fmt.Errorf("wait for a model request: %w", context.Cause(ctx))
		}
	}
}

func (s *Server) respond(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		return
	}
	defer s.wg.Done()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "read body: "+err.Error(), http.StatusBadRequest)
		return
	}
	req, err := parseRequest(body)
	if err != nil {
		b, _ := json.Marshal(map[string]any{"error": map[string]string{"message": err.Error()}})
		writeStatus(w, http.StatusBadRequest, string(b))
		return
	}
	req = s.record(req)
	if s.opts.OnRequest != nil {
		s.opts.OnRequest(req)
	}
	reply, scripted := Reply{}, false
	if s.opts.Reply != nil {
		reply, scripted = s.opts.Reply(req)
	}
	if !scripted {
		reply = byWords(req, s.count)
		reply.Step = 0
		if reply.Pieces > 1 {
			reply.Step = s.opts.SlowStep
		}
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	send(ctx, w, req, reply)
}

// enter counts a handler in. Not a bare Add: a handler may begin while Close
// already waits, and an Add from zero beside a Wait is a race.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	s.wg.Add(1)
	return true
}

func (s *Server) record(req Request) Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total++
	req.N = s.total
	s.requests = append(s.requests, req)
	if over := len(s.requests) - s.opts.Keep; over > 0 {
		s.requests = append([]Request(nil), s.requests[over:]...)
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return req
}

func (s *Server) count(directive string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts[directive]++
	return s.counts[directive]
}
