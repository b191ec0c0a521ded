package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
)

// Options is what a Server is made of.
type Options struct {
	Backend  Backend
	Socket   string              // path of the control socket
	Listen   string              // address of metrics and health; "" for none
	Gatherer prometheus.Gatherer // needed with Listen
	// Paths are the places of each work dir by its name.
	Paths  map[string]Paths
	Logger *slog.Logger
}

// Paths are where a work dir's files lie, as far as the API has to know.
type Paths struct {
	Results string // results are named below it
	KeyFile string // dropped tasks are stamped with it when it exists
}

// Time limits of both listeners.
const (
	// readTimeout bounds the sending of a request.
	readTimeout = 10 * time.Second
	// answerTimeout bounds an operation. The slowest is asking the child for
	// its models.
	answerTimeout = 20 * time.Second
	// closeTimeout is how long requests may finish at the end.
	closeTimeout = 2 * time.Second
)

// Server is both listeners.
type Server struct {
	opt    Options
	log    *slog.Logger
	socket *ownedSocket
	tcp    net.Listener // nil without Listen
}

// Open binds both listeners, so that whoever starts the service sees at once
// what is in the way. Serve must be called then: it closes them. A socket at
// which another service answers is *[InUseError].
func Open(opt Options) (*Server, error) {
	s := &Server{opt: opt, log: opt.Logger.With("component", "control")}
	var err error
	if s.socket, err = listenUnix(opt.Socket, s.log); err != nil {
		return nil, err
	}
	if opt.Listen != "" {
		if s.tcp, err = net.Listen("tcp", opt.Listen); err != nil {
			_ = s.socket.Close()
			return nil, fmt.Errorf("listen for metrics: %w", err)
		}
	}
	return s, nil
}

// Addr is where metrics and health are, "" for nowhere.
func (s *Server) Addr() string {
	if s.tcp == nil {
		return ""
	}
	return s.tcp.Addr().String()
}

// Serve answers until ctx ends.
func (s *Server) Serve(ctx context.Context) error {
	var group errgroup.Group
	group.Go(func() error { return s.run(ctx, s.socket, s.routes(), answerTimeout+readTimeout) })
	if s.tcp != nil {
		group.Go(func() error { return s.run(ctx, s.tcp, s.web(), answerTimeout+readTimeout) })
	}
	return group.Wait()
}

func (s *Server) run(ctx context.Context, l net.Listener, h http.Handler, write time.Duration) error {
	server := &http.Server{
		Handler: h, ReadTimeout: readTimeout, WriteTimeout: write, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	_ = server.Close()
	return fmt.Errorf("serve %s: %w", l.Addr(), err)
}
