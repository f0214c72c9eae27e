//go:build !linux

package main

import (
	"errors"
	"os"
	"syscall"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// Systems other than Linux do not reparent orphans to ingot-init. Processes in a
// member's own process group are killed with it; those that left the group are
// not.

type oomCounter struct{ watched bool }

// group is the control group of a member, of which this system has none.
type group struct{}

func (g *group) outOfMemory() (oom bool, limit int64) { return false, 0 }

func (g *group) kill() {}

var errNoGroups = errors.New("this system has no control groups, which limits of members need")

func (h *host) prepare() error {
	h.groups = make([]*group, len(h.spec.Members))
	for _, m := range h.spec.Members {
		if m.Group != nil || m.Memory > 0 || m.CPUWeight > 0 {
			return errNoGroups
		}
	}
	return nil
}

func (h *host) watchLimits() <-chan time.Time { return nil }

func (h *host) killExceeded([]int) {}

func (h *host) enter(string, initproto.Member, [3]*os.File, *syscall.SysProcAttr) (int, error) {
	return 0, errNoGroups
}

const enterArg = "--enter"

func runEnter() int { return exitUsage }

func (h *host) tie(*syscall.SysProcAttr) {}

func (h *host) expose() (restore func()) { return func() {} }

func shedLater() {}

func (h *host) taken(int) bool { return false }

func (h *host) childless() bool { return true }

func (h *host) killAll(members []int) {
	for _, pid := range members {
		if pid > 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // the group may be empty
		}
	}
}

func (h *host) outOfMemory() bool { return false }

func (h *host) listening(int) ([]socket, bool) { return nil, false }

func cpuTime(int) time.Duration { return 0 }
