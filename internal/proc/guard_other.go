//go:build !linux

package proc

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// runGuard starts the program and ends its process group when the program ends
// or the service is gone. Without a subreaper it does not see who left the group.
func runGuard(argv []string, control io.Reader, status io.Writer) int {
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(asked)
	child, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		r := report{Failed: err.Error()}
		var errno syscall.Errno
		if errors.As(err, &errno) {
			r.Errno = int(errno)
		}
		tell(status, r)
		return 1
	}
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		_ = f.Close()
	}
	tell(status, report{Started: &Identity{PID: child.Pid}})
	ended := make(chan *os.ProcessState, 1)
	go func() { // ends with the app-server
		state, _ := child.Wait()
		ended <- state
	}()
	orders := make(chan byte)
	go readOrders(control, orders)
	var state *os.ProcessState
	for over := false; !over && state == nil; {
		select {
		case state = <-ended:
		case <-asked:
		case o, ok := <-orders:
			switch {
			case !ok, o == orderKill:
				over = true
			case o == orderTerm:
				_ = child.Signal(syscall.SIGTERM)
			}
		}
	}
	_ = syscall.Kill(-child.Pid, syscall.SIGKILL)
	if state == nil {
		select {
		case state = <-ended:
		case <-time.After(20 * time.Second):
		}
	}
	r := report{Ended: true}
	if state == nil {
		r.Left = 1
	} else if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		r.Signal = ws.Signal().String()
	} else {
		r.Code = state.ExitCode()
	}
	tell(status, r)
	return 0
}

func readOrders(control io.Reader, orders chan<- byte) {
	defer close(orders)
	buf := make([]byte, 1)
	for {
		if _, err := control.Read(buf); err != nil {
			return
		}
		orders <- buf[0]
	}
}
