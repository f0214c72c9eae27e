//go:build !linux

package cgroup

import "os/exec"

// Group does not exist here.
type Group struct{ Lacks error }

// Make returns ErrNone.
func Make(string, Limits, string, Limits) (*Group, error) { return nil, ErrNone }

// Start starts a command.
func (*Group) Start(cmd *exec.Cmd) error { return cmd.Start() }

// LimitDisk returns ErrNone.
func (*Group) LimitDisk(string, int64, int64) error { return ErrNone }

// OOMKills returns 0.
func (*Group) OOMKills() int64 { return 0 }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// RemoveAll does nothing.
func RemoveAll(string) error { return nil }

// UnlimitDisk does nothing.
func UnlimitDisk(string) {}
