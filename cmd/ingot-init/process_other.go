//go:build !linux

package main

import "syscall"

// Systems other than Linux do not reparent orphans to ingot-init. Processes in a
// member's own process group are killed with it; those that left the group are
// not.

type oomCounter struct{}

func (h *host) prepare() error { return nil }

func (h *host) tie(*syscall.SysProcAttr) {}

func (h *host) expose() (restore func()) { return func() {} }

func shedLater() {}

func (h *host) childless() bool { return true }

func (h *host) killAll(members []int) {
	for _, pid := range members {
		if pid > 0 {
			_ = syscall.Kill(-pid, syscall.SIGKILL) // the group may be empty
		}
	}
}

func (h *host) outOfMemory() bool { return false }

func (h *host) listening(int) []socket { return nil }
