package control

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestPeerUID(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "cs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	addr := &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	if uid, err := peerUID(c); err != nil || uid != os.Geteuid() {
		t.Errorf("listener is uid %d, %v", uid, err)
	}
	_ = c.Close()
	if uid, err := peerUID(c); err == nil || uid != -1 {
		t.Errorf("of a closed connection: uid %d, %v", uid, err)
	}
}
