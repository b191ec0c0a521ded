//go:build !linux && !darwin

package durable

import (
	"syscall"
	"time"
)

func changeTime(*syscall.Stat_t) time.Time { return time.Time{} }
