//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// state is everything that has to be removed when the cluster stops. It is in a
// file, so that it can also be removed after the supervisor was killed.
type state struct {
	Dir        string
	Supervisor pid
	// Processes are in the order of their start.
	Processes []pid
	// Bridges are network interfaces, Cgroups names below every hierarchy.
	Bridges []string
	Cgroups []string
	// Settings are kernel settings with the values they had.
	Settings map[string]string
	// Made are directories outside of Dir that did not exist before.
	Made []string
}

const stateFile = "state.json"

func readState(dir string) (*state, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, err
	}
	s := &state{}
	return s, json.Unmarshal(text, s)
}

// save writes the state. The caller holds the lock of the cluster.
func (s *state) save() error {
	text, err := json.MarshalIndent(s, "", "\t")
	if err != nil {
		return err
	}
	file := filepath.Join(s.Dir, stateFile)
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// settings are the kernel settings that a kubelet changes.
var settings = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// shared are the directories outside of a node's own that it uses, deepest first.
var shared = []string{
	"/var/lib/kubelet/device-plugins", "/var/lib/kubelet", "/var/log/containers", "/var/lib/cni/results", "/var/lib/cni",
	"/run/containerd/s", "/run/containerd/runc/k8s.io", "/run/containerd/runc", "/run/containerd",
}

// remember notes how this machine was before the cluster.
func (s *state) remember() {
	s.Settings = map[string]string{}
	for _, name := range settings {
		if value, err := os.ReadFile("/proc/sys/" + name); err == nil {
			s.Settings[name] = strings.TrimSpace(string(value))
		}
	}
	for _, dir := range shared {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			s.Made = append(s.Made, dir)
		}
	}
}

// restore resets the kernel settings that have changed.
func (s *state) restore() error {
	var failed []error
	for name, value := range s.Settings {
		file := "/proc/sys/" + name
		if now, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(now)) != value {
			failed = append(failed, os.WriteFile(file, []byte(value), 0o644)) //nolint:gosec // a kernel setting
		}
	}
	return errors.Join(failed...)
}

// clean stops and removes everything. It can be called again.
func (s *state) clean() error {
	var failed []error
	try := func(err error) {
		if err != nil {
			failed = append(failed, err)
		}
	}
	// Kubelets first: they would start what is stopped.
	for _, p := range slices.Backward(s.Processes) {
		if strings.HasPrefix(p.Name, "kubelet") {
			try(p.terminate(20 * time.Second))
		}
	}
	try(s.killContainers())
	for _, p := range slices.Backward(s.Processes) {
		try(p.terminate(20 * time.Second))
	}
	try(s.killShims())
	try(unmountBelow(s.Dir))
	for _, name := range s.Bridges {
		if _, err := os.Stat("/sys/class/net/" + name); err == nil {
			try(command(context.Background(), "ip", "link", "delete", name))
		}
	}
	for _, name := range s.Cgroups {
		for _, mount := range cgroupMounts() {
			try(removeCgroup(filepath.Join(mount, name)))
		}
	}
	try(s.restore())
	s.removeShared()
	if len(failed) > 0 {
		return fmt.Errorf("%s is not removed completely: %w", s.Dir, errors.Join(failed...))
	}
	return os.RemoveAll(s.Dir)
}

// killContainers kills the processes of all containers: those in the nodes' cgroups.
func (s *state) killContainers() error {
	members := func() (all []int) {
		for _, name := range s.Cgroups {
			for _, mount := range cgroupMounts() {
				_ = filepath.WalkDir(filepath.Join(mount, name), func(path string, e fs.DirEntry, err error) error {
					if err == nil && e.Name() == "cgroup.procs" {
						text, _ := os.ReadFile(path) //nolint:gosec // in a file system of the kernel
						for _, field := range strings.Fields(string(text)) {
							if n, err := strconv.Atoi(field); err == nil && n > 0 && !slices.Contains(all, n) {
								all = append(all, n)
							}
						}
					}
					return nil
				})
			}
		}
		return all
	}
	if !eventually(20*time.Second, func() bool {
		all := members()
		for _, n := range all {
			_ = syscall.Kill(n, syscall.SIGKILL) // it may have exited
		}
		return len(all) == 0
	}) {
		return fmt.Errorf("processes of containers do not exit: %v", members())
	}
	return nil
}

// killShims stops the supervisors of containers that outlived their containerd, and
// removes their sockets. Their arguments name the containerd's socket.
func (s *state) killShims() error {
	sockets, _ := filepath.Glob(filepath.Join(s.Dir, "*", "run", "io.containerd.runtime.v2.task", "*", "*", "address"))
	for _, n := range processes() {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", n))
		args := strings.Split(string(text), "\x00")
		if i := slices.Index(args, "-address"); i < 0 || !strings.HasPrefix(args[i+1], s.Dir+"/") ||
			!strings.HasPrefix(filepath.Base(args[0]), "containerd-shim") {
			continue
		}
		if err := pidOf("containerd-shim", n).terminate(time.Second); err != nil {
			return err
		}
	}
	for _, file := range sockets {
		text, _ := os.ReadFile(file)
		if path, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "unix://"); ok {
			os.Remove(path)
		}
	}
	return nil
}

// unmountBelow unmounts everything below a directory.
func unmountBelow(dir string) error {
	for _, path := range slices.Backward(mountsBelow(dir)) {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return nil
}

func mountsBelow(dir string) []string {
	var all []string
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			all = append(all, strings.ReplaceAll(fields[4], `\040`, " "))
		}
	}
	return all
}

// removeShared removes what nodes leave outside of their own directory.
func (s *state) removeShared() {
	links, _ := filepath.Glob("/var/log/containers/*")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && strings.HasPrefix(target, s.Dir+"/") {
			os.Remove(link)
		}
	}
	for _, bridge := range s.Bridges { // a network has the name of its bridge
		results, _ := filepath.Glob("/var/lib/cni/results/" + bridge + "-*")
		for _, file := range results {
			os.Remove(file)
		}
	}
	if slices.Contains(s.Made, "/var/lib/kubelet/device-plugins") {
		files, _ := filepath.Glob("/var/lib/kubelet/device-plugins/*")
		for _, file := range files {
			os.Remove(file)
		}
	}
	for _, dir := range s.Made {
		_ = os.Remove(dir) // another cluster may use it
	}
}
