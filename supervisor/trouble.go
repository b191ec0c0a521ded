package supervisor

import (
	"fmt"
	"maps"
	"slices"
)

// trouble notes what keeps an answer from being written, usually a full or
// read-only disk. It is logged when it begins and ends, not for each try.
func (w *WorkDir) trouble(id string, err error) {
	had := len(w.troubles)
	if err == nil {
		delete(w.troubles, id)
	} else {
		w.troubles[id] = oneLine(err.Error(), 300)
	}
	switch has := len(w.troubles); {
	case had == 0 && has > 0:
		w.log.Error("an answer cannot be written; it is kept and tried again", "task", id, "error", err, "try", "look at the disk and at the owner of the dirs")
	case had > 0 && has == 0:
		w.log.Info("all answers could be written")
	}
}

// problem says in words what keeps answers from being written.
func (w *WorkDir) problem() string {
	ids := slices.Sorted(maps.Keys(w.troubles))
	switch len(ids) {
	case 0:
		return ""
	case 1:
		return w.troubles[ids[0]]
	default:
		return fmt.Sprintf("%d answers cannot be written, the first: %s", len(ids), w.troubles[ids[0]])
	}
}

// cancelled takes a cancel that no turn was there to hear.
func cancelled(r *running) bool {
	select {
	case <-r.cancel:
		return true
	default:
		return false
	}
}
