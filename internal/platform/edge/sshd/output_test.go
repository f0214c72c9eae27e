package sshd

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"ingot/internal/base/clock"
)

// lateClock is the clock of a machine that stood still: every timer is overdue. Before the
// one with the number of late it lets the output appear that was not read until then.
type lateClock struct {
	clock.System
	late   int
	timers int
	appear func()
}

func (c *lateClock) AfterFunc(d time.Duration, f func()) (stop func()) {
	if c.timers++; c.timers == c.late {
		c.appear()
	}
	return c.System.AfterFunc(min(d, 0), f)
}

// TestOutputAfterExit checks that the output of a process that has exited is passed on, also if
// timers are due before it was read.
func TestOutputAfterExit(t *testing.T) {
	t.Parallel()
	for late := 1; late <= quietLooks; late++ {
		synctest.Test(t, func(t *testing.T) {
			from, to := io.Pipe()
			var got bytes.Buffer
			f := &flow{from: from, to: &got}
			drained := make(chan struct{})
			go func() {
				defer close(drained)
				f.run()
			}()
			synctest.Wait() // for output
			clock := &lateClock{late: late, appear: func() { _, _ = io.WriteString(to, "the last line") }}
			p := &process{session: &session{c: &connection{server: &Server{c: Config{Clock: clock}}}}, lost: make(chan struct{})}
			p.awaitOutput(drained, []*flow{f}) // another process keeps the output open
			_ = to.Close()
			<-drained
			if got.String() != "the last line" {
				t.Errorf("the output before timer %d: %q", late, &got)
			}
		})
	}
}
