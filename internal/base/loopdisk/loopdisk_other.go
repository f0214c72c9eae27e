//go:build !linux

package loopdisk

import (
	"context"
	"errors"
	"syscall"
)

var errNone = errors.New("loop devices are only used on Linux")

func Program(string) (string, error)               { return "", errNone }
func Run(context.Context, string, ...string) error { return errNone }
func MountOnce(string, string, string) error       { return errNone }
func Used(string) (int64, error)                   { return 0, errNone }
func GiveReserve(string, uint32) error             { return errNone }
func Free(string) (int64, error)                   { return 0, errNone }
func Mounted(string) bool                          { return false }
func Unmount(string) error                         { return nil }

func Sync(string) error { syscall.Sync(); return nil }
