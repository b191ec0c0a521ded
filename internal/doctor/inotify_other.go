//go:build !linux

package doctor

func (*doctor) inotify() Check { return ok(InotifyLimits, "not limited on this system") }
