//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// cgroupMounts returns the mount points of all cgroup hierarchies.
func cgroupMounts() []string {
	var all []string
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		before, after, _ := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if kind, _, _ := strings.Cut(after, " "); len(fields) > 4 && (kind == "cgroup" || kind == "cgroup2") {
			all = append(all, fields[4])
		}
	}
	return all
}

// makeCgroup creates the cgroup of a node in every hierarchy: a kubelet does not
// create its root.
func makeCgroup(name string) error {
	for _, mount := range cgroupMounts() {
		dir := filepath.Join(mount, name)
		// In version 2, children have the controllers that their parent passes on.
		if available, err := os.ReadFile(filepath.Join(mount, "cgroup.controllers")); err == nil {
			for controller := range strings.FieldsSeq(string(available)) {
				_ = os.WriteFile(filepath.Join(mount, //nolint:gosec // a kernel setting; the kubelet reports what is missing
					"cgroup.subtree_control"), []byte("+"+controller), 0o644)
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		// In version 1, a new cpuset is empty, and no process can be put into it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			if text, err := os.ReadFile(filepath.Join(mount, file)); err == nil {
				if err := os.WriteFile(filepath.Join(dir, file), text, 0o644); err != nil { //nolint:gosec // a kernel setting
					return err
				}
			}
		}
	}
	return nil
}

// removeCgroup removes a cgroup with those below it.
func removeCgroup(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}
