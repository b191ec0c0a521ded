package stubserver

import (
	"os/exec"
	"syscall"
)

// spawn leaves a process behind that no signal to our group reaches.
func spawn() {
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() == nil {
		_ = cmd.Process.Release()
	}
}
