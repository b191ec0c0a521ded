package task

import (
	"regexp"
	"strings"
)

// lookupClass is the class in which gateways look ids up. It is wider than
// the ids that local writers make (`task-[A-Za-z0-9-]+`): broker ids carry
// `.` and `_`, named instances carry `~` (task-<instance>~<broker id>).
// \z, not $: a trailing LF is not part of an id.
var lookupClass = regexp.MustCompile(`^[A-Za-z0-9._~-]{1,128}\z`)

// stateSuffix is the mark that a pool leaves on a file which one of its
// workers holds: task-<id>.claimed-<worker>.txt, task-<id>.assigned-<worker>.txt.
var stateSuffix = regexp.MustCompile(`^task-.+?\.(?:assigned|claimed)-.+\z`)

// ValidID reports whether a file's stem can be a task id. One thing is
// narrower than the lookup class: a leading dot is refused, since
// results/.x.txt would be a dotfile, which no poster looks at.
func ValidID(stem string) bool {
	return lookupClass.MatchString(stem) && !strings.HasPrefix(stem, ".")
}

// OtherWorkers reports whether the stem carries a pool's state suffix: the
// file is somebody else's and must not be run here.
func OtherWorkers(stem string) bool { return stateSuffix.MatchString(stem) }
