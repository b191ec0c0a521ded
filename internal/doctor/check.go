package doctor

import (
	"fmt"
	"slices"
	"strings"
)

// Status is how a check ended.
type Status string

// The three ends of a check.
const (
	OK   Status = "ok"
	Warn Status = "warn"
	Fail Status = "fail"
)

// ID names a check for good: scripts and alerts ask for it.
type ID string

// The checks, in the order in which they are reported: a later one often fails
// because an earlier one did.
const (
	ConfigLoads      ID = "config_loads"
	BinaryFound      ID = "binary_found"
	BinaryNative     ID = "binary_native"
	BinaryVersion    ID = "binary_version"
	CodexConfigLoads ID = "codex_config_loads"
	Login            ID = "login"
	SandboxWorks     ID = "sandbox_works"
	Confinement      ID = "confinement"
	DirsWritable     ID = "dirs_writable"
	DirsApart        ID = "dirs_apart"
	DiskSpace        ID = "disk_space"
	Clock            ID = "clock"
	HMACKey          ID = "hmac_key"
	InotifyLimits    ID = "inotify_limits"
	NofileLimit      ID = "nofile_limit"
	Ports            ID = "ports"
	Socket           ID = "socket"
	ServiceState     ID = "service_state"
)

// IDs lists all checks.
func IDs() []ID { return append(machineIDs(), workDirIDs()...) }

// machineIDs are the checks that are made once, workDirIDs those of each work
// dir. Both are in their own order.
func machineIDs() []ID {
	return []ID{ConfigLoads, InotifyLimits, NofileLimit, Ports, Socket}
}

func workDirIDs() []ID {
	return []ID{
		BinaryFound, BinaryNative, BinaryVersion, CodexConfigLoads, Login, SandboxWorks, Confinement,
		DirsWritable, DirsApart, DiskSpace, Clock, HMACKey, ServiceState,
	}
}

// Check is what came out of one check.
type Check struct {
	ID ID `json:"id"`
	// WorkDir is the name of the work dir where there are several.
	WorkDir string `json:"workdir,omitempty"`
	Status  Status `json:"status"`
	Found   string `json:"found"`
	Try     string `json:"try"` // "" where there is nothing to do
}

// Report is what came out of all of them.
type Report struct {
	Checks []Check `json:"checks"`
	OK     bool    `json:"ok"` // no check failed
}

// Count is how many checks ended with s.
func (r Report) Count(s Status) int {
	n := 0
	for _, c := range r.Checks {
		if c.Status == s {
			n++
		}
	}
	return n
}

func report(checks []Check) Report {
	return Report{Checks: checks, OK: !slices.ContainsFunc(checks, func(c Check) bool { return c.Status == Fail })}
}

func ok(id ID, format string, args ...any) Check {
	return Check{ID: id, Status: OK, Found: fmt.Sprintf(format, args...)}
}

func warn(id ID, try, format string, args ...any) Check {
	return Check{ID: id, Status: Warn, Try: try, Found: fmt.Sprintf(format, args...)}
}

func fail(id ID, try, format string, args ...any) Check {
	return Check{ID: id, Status: Fail, Try: try, Found: fmt.Sprintf(format, args...)}
}

// unseen is a check that could not be made. It is no failure of its own: what
// stood in its way is one.
func unseen(id ID, why string) Check {
	return Check{ID: id, Status: Warn, Found: notChecked + why}
}

const notChecked = "not checked: "

// NotChecked says why a check was not made; is is false when it was.
func (c Check) NotChecked() (why string, is bool) { return strings.CutPrefix(c.Found, notChecked) }
