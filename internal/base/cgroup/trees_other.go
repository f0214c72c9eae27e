//go:build !linux

package cgroup

import "os/exec"

type trees struct{ unified string }

func find() (trees, error)                            { return trees{}, ErrNone }
func (trees) make(string, Limits) error               { return ErrNone }
func (trees) enter(string, *exec.Cmd) (func(), error) { return nil, ErrNone }
func (trees) add(string, int) error                   { return ErrNone }
func (trees) oomKills(string) int64                   { return 0 }
func (trees) below(string) []string                   { return nil }
func (trees) remove(string) error                     { return nil }
func (trees) removeEmpty(string)                      {}

func (*Group) LimitDisk(string, int64, int64) error { return ErrNone }

// UnlimitDisk does nothing.
func UnlimitDisk(string) {}
