package proc

import "syscall"

// setNoFile sets the soft limit on descriptors for the program to come.
func setNoFile(n uint64) {
	var l syscall.Rlimit
	if n == 0 || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return
	}
	l.Cur = min(n, l.Max)
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l)
}
