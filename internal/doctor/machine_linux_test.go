package doctor_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codex-supervisor/codex-supervisor/internal/doctor"
)

func TestJudgeInotify(t *testing.T) {
	wants(t, doctor.JudgeInotify(10, 1000, 2, 128, nil), doctor.OK, "2 of 128 instances and 10 of 1000 watches", "")
	wants(t, doctor.JudgeInotify(10, 1000, 120, 128, nil), doctor.Warn, "nearly used up: 120 of 128", "fs.inotify.max_user_instances=512")
	wants(t, doctor.JudgeInotify(950, 1000, 2, 128, nil), doctor.Warn, "950 of 1000 watches", "max_user_watches=65536")
	wants(t, doctor.JudgeInotify(10, 1000, 128, 128, unix.EMFILE), doctor.Warn, "no inotify instance left (128 of 128", "instances=512")
	wants(t, doctor.JudgeInotify(9e5, 9e5, 2, 128, unix.ENOSPC), doctor.Warn, "no inotify watch left", "watches=1800000")
	wants(t, doctor.JudgeInotify(0, 0, 0, 0, unix.ENOSYS), doctor.Warn, "function not implemented", "")
}

func TestInotifyUse(t *testing.T) {
	watchesBefore, before := doctor.InotifyUse("/proc", os.Geteuid())
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, dir := range []string{t.TempDir(), t.TempDir()} {
		if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_CREATE); err != nil {
			t.Fatal(err)
		}
	}
	watches, instances := doctor.InotifyUse("/proc", os.Geteuid())
	if instances < before+1 || watches < watchesBefore+2 {
		t.Errorf("%d watches, %d instances; before %d, %d", watches, instances, watchesBefore, before)
	}
	if w, n := doctor.InotifyUse("/proc", 1<<30); w+n != 0 {
		t.Errorf("a user without processes has %d, %d", w, n)
	}
}

func TestUserNamespaceHint(t *testing.T) {
	for path, want := range map[string]struct{ value, hint string }{
		"kernel/apparmor_restrict_unprivileged_userns": {"1", "AppArmor"},
		"kernel/unprivileged_userns_clone":             {"0", "unprivileged_userns_clone=1"},
		"user/max_user_namespaces":                     {"0", "max_user_namespaces="},
		"kernel/overflowuid":                           {"65534", "in a container"},
		"other":                                        {"", "ProcSubset=pid"},
	} {
		sys := t.TempDir()
		file := filepath.Join(sys, path)
		mkdir(t, filepath.Dir(file))
		write(t, file, want.value+"\n", 0o600)
		wants(t, doctor.Check{Try: doctor.UserNamespaceHint(sys)}, "", "", want.hint)
	}
}
