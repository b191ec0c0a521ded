package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// ports listens for a moment where metrics and health would be.
func (d *doctor) ports() Check {
	switch {
	case d.ConfigErr != nil:
		return unseen(Ports, "the configuration does not load")
	case d.Listen == "":
		return ok(Ports, "metrics and health are off")
	case d.Service != nil && d.Service.Listen == d.Listen:
		return ok(Ports, "%s is held by the running service", d.Listen)
	}
	l, err := net.Listen("tcp", d.Listen)
	switch {
	case err == nil:
		_ = l.Close()
		return ok(Ports, "%s is free", d.Listen)
	case errors.Is(err, syscall.EADDRINUSE):
		_, port, _ := net.SplitHostPort(d.Listen)
		return fail(Ports, "`ss -ltnp sport = :"+port+"` says whose; another port by --listen 127.0.0.1:PORT, or --listen off", "%s is taken by another program", d.Listen)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fail(Ports, "--listen 127.0.0.1:9464, or --listen off", "%s is no address of this machine", d.Listen)
	case errors.Is(err, syscall.EACCES):
		return fail(Ports, "a port above 1023 by --listen, or --listen off", "%s: not allowed for this user", d.Listen)
	}
	return fail(Ports, "--listen 127.0.0.1:9464, or --listen off", "%s", err)
}

// longestSocket is what fits into a sun_path (108 bytes on Linux, 104 on macOS)
// with the zero at its end.
const longestSocket = 103

// socket looks at the control socket without making one.
func (d *doctor) socket() Check {
	if d.Service != nil {
		return ok(Socket, "a service answers at %s", d.ServiceSocket)
	}
	const elsewhere = "another place by --socket, for the service and for its clients"
	switch {
	case d.ServiceErr != nil:
		return fail(Socket, "run this as the service's user, or as root", "%s", d.ServiceErr)
	case d.Socket == "":
		return unseen(Socket, "the configuration does not load")
	case len(d.Socket) > longestSocket:
		return fail(Socket, elsewhere, "%s has %d bytes, and %d are the most", d.Socket, len(d.Socket), longestSocket)
	}
	switch info, err := os.Lstat(d.Socket); {
	case err == nil && info.Mode().Type() != fs.ModeSocket:
		return fail(Socket, "move it away, or "+elsewhere, "%s is a file, no socket", d.Socket)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fail(Socket, elsewhere, "%s", plain(err))
	}
	dir := filepath.Dir(d.Socket)
	at, err := existing(dir)
	if err != nil {
		return fail(Socket, elsewhere, "%s", plain(err))
	}
	if _, err := tryFile(at); err != nil {
		return fail(Socket, elsewhere, "%s cannot be made: %s", d.Socket, plain(err))
	}
	if at == dir {
		if why := d.sharedDir(dir); why != "" {
			return fail(Socket, "chmod 700 "+dir+", or "+elsewhere, "%s", why)
		}
	}
	return ok(Socket, "can be made at %s", d.Socket)
}

// sharedDir says why others could put a socket of their own in place of ours.
func (d *doctor) sharedDir(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return plain(err)
	}
	if st, is := info.Sys().(*syscall.Stat_t); is && int(st.Uid) != d.UID {
		return fmt.Sprintf("%s belongs to uid %d, not to us", dir, st.Uid)
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Sprintf("%s may be written by others (mode %04o)", dir, mode)
	}
	return ""
}
