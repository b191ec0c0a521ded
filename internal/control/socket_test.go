package control_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/codex-supervisor/codex-supervisor/internal/control"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestSocket_ModesAndEnd(t *testing.T) {
	h := serve(t, &fake{}, nil)
	info, err := os.Stat(h.socket)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	info, err = os.Stat(filepath.Dir(h.socket))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", info.Mode(), err)
	}
	h.close()
	if _, err := os.Lstat(h.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
	_, err = control.Dial(t.Context(), []string{h.socket, "/nonexistent/dir/c.sock"})
	if !errors.Is(err, control.ErrNoService) || !strings.Contains(err.Error(), h.socket) || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("dial: %v", err)
	}
}

func TestSocket_LiveOneIsNeverTaken(t *testing.T) {
	h := serve(t, &fake{}, nil)
	_, err := control.Open(control.Options{Backend: &fake{}, Socket: h.socket, Logger: quiet()})
	var inUse *control.InUseError
	if !errors.As(err, &inUse) || inUse.PID != os.Getpid() || !strings.Contains(err.Error(), h.socket) {
		t.Fatalf("%v", err)
	}
	if _, err := dial(t, h).Status(t.Context()); err != nil {
		t.Errorf("the live one afterwards: %v", err)
	}
}

func TestSocket_LiveOneWithoutLockIsNeverTaken(t *testing.T) {
	socket := filepath.Join(shortDir(t), "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = control.Open(control.Options{Backend: &fake{}, Socket: socket, Logger: quiet()})
	var inUse *control.InUseError
	if !errors.As(err, &inUse) || inUse.PID != 0 {
		t.Fatalf("%v", err)
	}
	if _, err := os.Lstat(socket); err != nil {
		t.Errorf("its socket: %v", err)
	}
}

func TestSocket_StaleOneIsTakenOver(t *testing.T) {
	socket := filepath.Join(shortDir(t), "c.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false) // as a killed service leaves it
	_ = l.Close()
	h := serve(t, &fake{}, func(o *control.Options) { o.Socket = socket })
	if st, err := dial(t, h).Status(t.Context()); err != nil || st.PID != 42 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestSocket_FilesAndForeignDirsAreLeftAlone(t *testing.T) {
	dir := shortDir(t)
	file := filepath.Join(dir, "precious")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Open(control.Options{Backend: &fake{}, Socket: file, Logger: quiet()}); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file in the way: %v", err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("the file: %q, %v", text, err)
	}
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Open(control.Options{Backend: &fake{}, Socket: filepath.Join(open, "c.sock"), Logger: quiet()}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory for everybody: %v", err)
	}
	if _, err := control.Open(control.Options{Backend: &fake{}, Socket: filepath.Join(file, "c.sock"), Logger: quiet()}); err == nil {
		t.Error("a file is a directory")
	}
	if os.Geteuid() != 0 {
		return
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.Mkdir(foreign, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(foreign, 12345, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := control.Open(control.Options{Backend: &fake{}, Socket: filepath.Join(foreign, "c.sock"), Logger: quiet()}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a directory of somebody else: %v", err)
	}
}

func TestOpen_PortInUseGivesTheSocketBack(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket := filepath.Join(shortDir(t), "c.sock")
	_, err = control.Open(control.Options{Backend: &fake{}, Socket: socket, Listen: l.Addr().String(), Logger: quiet()})
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("%v", err)
	}
	serve(t, &fake{}, func(o *control.Options) { o.Socket = socket })
}

func TestServe_ALostListenerIsAnError(t *testing.T) {
	s, err := control.Open(control.Options{Backend: &fake{}, Socket: filepath.Join(shortDir(t), "c.sock"), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if s.Addr() != "" {
		t.Errorf("listens at %q without an address", s.Addr())
	}
	control.CloseSocket(s)
	if err := s.Serve(context.Background()); err == nil || !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A place that was only guessed may be somebody else's; the service is looked
// for at the next one.
func TestDial_GuessThatIsClosedToUs(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("nothing is closed to root")
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	locked := filepath.Join(closed, "control.sock")
	_, err := control.Dial(t.Context(), []string{locked, filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, control.ErrNoService) {
		t.Errorf("two guesses: %v, want no service", err)
	}
	if _, err := control.Dial(t.Context(), []string{locked}); err == nil || errors.Is(err, control.ErrNoService) {
		t.Errorf("the one place that was named: %v, want its own error", err)
	}
}
