//go:build linux

package network

import (
	"errors"
	"os"
	"strconv"

	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine/local"
)

// ErrEnded means that the process of an instance has ended.
var ErrEnded = errors.New("the instance has ended")

// Within calls f on a thread in a process's network namespace. A socket stays in the
// namespace it was created in, wherever it is used.
func Within[T any](p local.ProcessID, f func() (T, error)) (T, error) {
	var result T
	ns, err := os.Open("/proc/" + strconv.Itoa(p.PID) + "/ns/net")
	if err != nil {
		return result, err
	}
	defer ns.Close()
	if !p.Alive() {
		return result, ErrEnded
	}
	return rootless.Within(ns, f)
}

// inNet calls f in the network of instances, which is that of this process unless an ordinary user
// started it.
func inNet(f func() error) error {
	_, err := rootless.InNet(func() (struct{}, error) { return struct{}{}, f() })
	return err
}
