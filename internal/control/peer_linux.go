package control

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID asks the kernel who opened the other end.
func peerUID(c *net.UnixConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("look at peer: %w", err)
	}
	uid := -1
	var credErr error
	err = raw.Control(func(fd uintptr) {
		var cred *unix.Ucred
		if cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); credErr == nil {
			uid = int(cred.Uid)
		}
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return -1, fmt.Errorf("ask who the peer is: %w", err)
	}
	return uid, nil
}
