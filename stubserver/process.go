package stubserver

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// run serves until stdin ends or SIGTERM comes; neither waits for a turn, as
// with the real one on stdio.
func (s *Server) run() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	done := make(chan struct{})
	go func() { // ends the process, or ends with it
		select {
		case <-term:
			os.Exit(0)
		case <-done:
		}
	}()
	err := s.Serve(ctx)
	close(done)
	if err != nil {
		return 1
	}
	return 0
}

// killSelf ends the process as a kill from outside does.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
