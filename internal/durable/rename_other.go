//go:build !linux && !darwin

package durable

import (
	"errors"
	"os"
)

func renameNoReplace(from, to string) error {
	return &os.LinkError{Op: "rename", Old: from, New: to, Err: errors.ErrUnsupported}
}
