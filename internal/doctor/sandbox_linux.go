package doctor

import "os"

// sandboxHint says what stands in the way of user namespaces, which Codex's
// sandbox needs for a user that is not root.
func sandboxHint() string { return userNamespaceHint("/proc/sys") }

func userNamespaceHint(sys string) string {
	switch {
	case is(sys+"/kernel/apparmor_restrict_unprivileged_userns", 1):
		return "AppArmor forbids user namespaces: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or a profile for codex with `userns,`"
	case is(sys+"/kernel/unprivileged_userns_clone", 0):
		return "sysctl -w kernel.unprivileged_userns_clone=1"
	case is(sys+"/user/max_user_namespaces", 0):
		return "sysctl -w user.max_user_namespaces=15000"
	}
	if _, err := os.Stat(sys + "/kernel/overflowuid"); err != nil {
		return "the sandbox needs /proc/sys: remove ProcSubset=pid from the service unit"
	}
	return "allow user namespaces where this runs; in a container: --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
}

func is(path string, value int) bool {
	n, err := number(path)
	return err == nil && n == value
}
