//go:build !linux

package proc

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// groupPatience is how long a killed process group may take to end.
const groupPatience = 5 * time.Second

// runGuard starts the program and ends its process group when the program ends
// or the service is gone. There is no subreaper here, so what left the group is
// ended only if it can still be found below the program, and there is no keeper,
// which could do no better.
func runGuard(d duty, control, status *os.File) int {
	asked := make(chan os.Signal, 16)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(asked)
	setNoFile(d.noFile)
	child, err := os.StartProcess(d.argv[0], d.argv, &os.ProcAttr{
		Env: withoutService(os.Environ()), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		tell(status, failure(err))
		return 1
	}
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		_ = f.Close()
	}
	id := identify(child.Pid)
	tell(status, report{Started: &id, Guard: &Identity{}})
	ended := make(chan *os.ProcessState, 1)
	go func() { // ends with the app-server
		state, _ := child.Wait()
		ended <- state
	}()
	orders := make(chan byte)
	go readOrders(control, orders) // ends with the process: the pipe may outlive it
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
	r := report{}
	if state == nil {
		if killed, err := SweepStale(id); err == nil {
			r.Swept = max(0, killed-1)
		}
	}
	_ = syscall.Kill(-child.Pid, syscall.SIGKILL)
	var left []string
	if state == nil {
		select {
		case state = <-ended:
		case <-time.After(groupPatience):
			left = []string{fmt.Sprintf("pid %d", child.Pid)}
		}
	}
	swept := r.Swept
	r = ending(state, syscall.Signal.String)
	r.Swept, r.Left = swept, left
	tell(status, r)
	return exitCode(state)
}
