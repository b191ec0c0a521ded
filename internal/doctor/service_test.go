package doctor_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
	"github.com/codex-supervisor/codex-supervisor/internal/reason"
	"github.com/codex-supervisor/codex-supervisor/internal/task"
	"github.com/codex-supervisor/codex-supervisor/supervisor"
)

func TestService(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*supervisor.WorkDirStatus)
		status doctor.Status
		found  string
		try    string
	}{
		"Ready":   {nil, doctor.OK, "running, pid 4711, child ready, guests confined", ""},
		"Problem": {func(s *supervisor.WorkDirStatus) { s.Problem = "the disk is full" }, doctor.Fail, "the disk is full", "status"},
		"Loops": {func(s *supervisor.WorkDirStatus) {
			s.Child.State, s.Child.CrashLooping, s.Child.Reason = supervisor.ChildBackoff, true, reason.ChildExited
		}, doctor.Fail, "again and again: exited", "status"},
		"Limit": {func(s *supervisor.WorkDirStatus) {
			s.Child.State, s.Child.Reason, s.Child.HeldUntil = supervisor.ChildHeld, reason.UsageLimit, time.Now().Add(time.Hour)
		}, doctor.Fail, "no turns until 20", "wait"},
		"Backoff": {func(s *supervisor.WorkDirStatus) {
			s.Child.State, s.Child.Reason, s.Child.Detail = supervisor.ChildBackoff, reason.BinaryMissing, "codex:\nnot there"
		}, doctor.Fail, "the child is backoff: binary_missing codex: not there", ""},
		"Starting": {func(s *supervisor.WorkDirStatus) { s.Child.State = supervisor.ChildStarting }, doctor.Warn, "the child is starting", "again"},
		"Guests": {func(s *supervisor.WorkDirStatus) {
			s.Guests = supervisor.GuestStatus{Reason: reason.GuestsUnconfined, Detail: "why"}
		}, doctor.Fail, "guests are refused: guests_unconfined why", "confinement"},
		"Paused":     {func(s *supervisor.WorkDirStatus) { s.Paused = true }, doctor.Warn, "paused", "resume house"},
		"OtherDir":   {func(s *supervisor.WorkDirStatus) { s.Path = "/else" }, doctor.Warn, "does not serve", "status"},
		"OtherState": {func(s *supervisor.WorkDirStatus) { s.State = "/else" }, doctor.Warn, "with the state dir /else", "flags"},
	} {
		t.Run(name, func(t *testing.T) {
			h := bareHouse(t)
			h.serving(tc.change)
			wants(t, h.check(doctor.ServiceState), tc.status, tc.found, tc.try)
		})
	}
	h := bareHouse(t)
	h.serving(func(s *supervisor.WorkDirStatus) { s.Guests = supervisor.GuestStatus{Reason: reason.TierDisabled} })
	off := supervisor.TierOptions{Disabled: true}
	h.w().Tiers = map[task.Tier]supervisor.TierOptions{task.Team: off, task.Guest: off, task.Ambient: off}
	wants(t, h.check(doctor.ServiceState), doctor.OK, "guests switched off", "")
}

func TestPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	taken := l.Addr().String()
	h := bareHouse(t)
	wants(t, h.check(doctor.Ports), doctor.OK, "off", "")
	h.opt.Listen = taken
	_, port, _ := net.SplitHostPort(taken)
	wants(t, h.check(doctor.Ports), doctor.Fail, "taken by another program", "sport = :"+port)
	h.serving(nil)
	wants(t, h.check(doctor.Ports), doctor.Fail, "taken by another program", "") // it listens elsewhere
	h.opt.Service.Listen = taken
	wants(t, h.check(doctor.Ports), doctor.OK, "held by the running service", "")
	h.opt.Service = nil
	_ = l.Close()
	wants(t, h.check(doctor.Ports), doctor.OK, "free", "")
	h.opt.Listen = "192.0.2.1:9464"
	wants(t, h.check(doctor.Ports), doctor.Fail, "no address of this machine", "--listen")
	h.opt.Listen = "nonsense"
	wants(t, h.check(doctor.Ports), doctor.Fail, "nonsense", "--listen")
}

func TestSocket(t *testing.T) {
	h := bareHouse(t)
	run := filepath.Dir(h.opt.Socket)
	wants(t, h.check(doctor.Socket), doctor.OK, "can be made at "+h.opt.Socket, "")
	mkdir(t, run)
	wants(t, h.check(doctor.Socket), doctor.OK, "can be made", "")
	if err := os.Chmod(run, 0o770); err != nil {
		t.Fatal(err)
	}
	wants(t, h.check(doctor.Socket), doctor.Fail, "may be written by others (mode 0770)", "chmod 700")
	h.opt.UID++
	wants(t, h.check(doctor.Socket), doctor.Fail, "belongs to uid", "")
	h.opt.UID--
	chmod(t, run, 0o500)
	wants(t, h.check(doctor.Socket), doctor.Fail, "cannot be made", "--socket")
	if err := os.Chmod(run, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, h.opt.Socket, "", 0o600)
	wants(t, h.check(doctor.Socket), doctor.Fail, "is a file, no socket", "move it away")
	h.opt.Socket = filepath.Join(h.opt.Socket, "below")
	wants(t, h.check(doctor.Socket), doctor.Fail, "not a directory", "--socket")
	h.opt.Socket = "/" + strings.Repeat("x", 110)
	wants(t, h.check(doctor.Socket), doctor.Fail, "has 111 bytes", "--socket")
	h.opt.ServiceErr = errors.New("uid 7 listens there")
	r := h.run(t.Context())
	wants(t, find(t, r, doctor.Socket), doctor.Fail, "uid 7 listens there", "as the service's user")
	wants(t, find(t, r, doctor.ServiceState), doctor.Warn, "not checked", "")
	h.serving(nil)
	wants(t, h.check(doctor.Socket), doctor.OK, "answers at /run/x/control.sock", "")
}
