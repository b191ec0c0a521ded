package stubserver

import (
	"slices"
	"time"
)

// clock holds what is to be done later, in the server's own goroutine: nothing
// of a turn ever runs anywhere else.
type clock struct {
	alarms []alarm
	timer  *time.Timer
}

type alarm struct {
	at time.Time
	do func()
}

// after has something done later. Alarms of one moment go off in their order.
func (c *clock) after(d time.Duration, do func()) {
	a := alarm{time.Now().Add(d), do}
	i, _ := slices.BinarySearchFunc(c.alarms, a, func(x, y alarm) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1
	})
	c.alarms = slices.Insert(c.alarms, i, a)
}

// next is a channel that is ready when the next alarm is due.
func (c *clock) next() <-chan time.Time {
	if len(c.alarms) == 0 {
		return nil
	}
	wait := time.Until(c.alarms[0].at)
	if c.timer == nil {
		c.timer = time.NewTimer(wait)
	} else {
		c.timer.Reset(wait)
	}
	return c.timer.C
}

// run does the one that is due.
func (c *clock) run() {
	a := c.alarms[0]
	c.alarms = c.alarms[1:]
	a.do()
}
