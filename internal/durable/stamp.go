package durable

import (
	"io/fs"
	"syscall"
	"time"
)

// Stamp is what tells one state of a file or directory from another without
// reading it. The change time is part of it, for writers can set the
// modification time to what it was.
type Stamp struct {
	Device, Inode uint64
	Size          int64
	Modified      time.Time
	Changed       time.Time
}

// StampOf takes the stamp out of what Stat, Lstat or File.Stat returned.
func StampOf(info fs.FileInfo) Stamp {
	stamp := Stamp{Size: info.Size(), Modified: info.ModTime(), Changed: info.ModTime()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp.Device, stamp.Inode, stamp.Changed = uint64(sys.Dev), uint64(sys.Ino), changeTime(sys)
	}
	return stamp
}
