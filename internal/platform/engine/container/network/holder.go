//go:build linux

package network

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/initproto"
)

// The holder is a process that does nothing but keep the socket open to which the copies of the
// firewall tables belong. So they outlive a server, as instances do, until the next one has
// written its own.

// holderTime limits how long a killed holder may take to end.
const holderTime = 30 * time.Second

// hold starts a holder, and another one should it end.
func (n *Network) hold(k *kernel) {
	if n.holder == "" {
		return
	}
	cmd, err := n.startHolder(k)
	if err != nil {
		n.log.Warn("the copy of the firewall will not outlive this server", "err", err)
		return
	}
	background.Go("engine firewall holder", func() {
		err := cmd.Wait() // maybe longer than the engine is open
		n.mu.Lock()
		again := n.kernel == k
		n.mu.Unlock()
		if !again {
			return
		}
		n.log.Warn("the process that holds the copy of the firewall has ended; starting another", "err", err)
		time.Sleep(restoreInterval)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.kernel == k {
			n.hold(k)
		}
	})
}

func (n *Network) startHolder(k *kernel) (*exec.Cmd, error) {
	var socket *os.File
	err := k.control(func(fd int) error {
		own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			socket = os.NewFile(uintptr(own), "netlink")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	cmd := exec.Command(n.holder, initproto.HoldArg, n.table) //nolint:noctx // outlives this process
	cmd.ExtraFiles, cmd.Env, cmd.Dir = []*os.File{socket}, []string{}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd, nil
}

// holders returns the processes that hold copies of a table.
func holders(table string) []local.ProcessID {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil
	}
	var list []local.ProcessID
	for _, file := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			continue
		}
		id, err := local.Identify(pid)
		if err != nil {
			continue
		}
		b, err := os.ReadFile(file)
		words := strings.Split(strings.TrimSuffix(string(b), "\x00"), "\x00")
		if err == nil && slices.Equal(words[1:], []string{initproto.HoldArg, table}) {
			list = append(list, id)
		}
	}
	return list
}

// endHolders ends holders, and waits until the copies are gone.
func endHolders(list []local.ProcessID) error {
	ctx, cancel := context.WithTimeout(context.Background(), holderTime)
	defer cancel()
	var errs []error
	for _, id := range list {
		err := id.Signal(syscall.SIGKILL)
		if err == nil {
			err = id.Wait(ctx)
		}
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, fmt.Errorf("holder of the firewall %d: %w", id.PID, err))
		}
	}
	return errors.Join(errs...)
}
