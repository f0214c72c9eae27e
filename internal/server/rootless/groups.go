package rootless

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// groups finds the control groups of processes.
type groups struct {
	proc, tree string // /proc and /sys/fs/cgroup
	user       string
	uid        int
	runtime    string // XDG_RUNTIME_DIR
}

// holdGroup is the group of the holder in the one that belongs to the user: with version 2, a group with
// others below has no processes.
const holdGroup = "hold"

var controllers = []string{"cpu", "memory", "pids"}

// unified reports whether the machine has version 2 only.
func (g groups) unified() bool {
	_, err := os.Stat(filepath.Join(g.tree, "cgroup.controllers"))
	return err == nil
}

// of returns the groups of a process: one with version 2, and one for each tree with version 1.
func (g groups) of(pid string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(g.proc, pid, "cgroup"))
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] == "" && !g.unified() {
			continue // the empty tree of version 2 beside version 1
		}
		all[strings.TrimPrefix(f[1], "name=")] = f[2]
	}
	return all, nil
}

// belongs returns the group of the user that the holder is in.
func (g groups) belongs(holder int) (string, error) {
	all, err := g.of(strconv.Itoa(holder))
	if err != nil {
		return "", err
	}
	if own, ok := all[""]; ok {
		if filepath.Base(own) != holdGroup {
			return "", fmt.Errorf("the control group of the namespaces is %s, which is not one of ingot", own)
		}
		return filepath.Dir(own), nil
	}
	return all["memory"], nil
}

// check says why this process cannot use control groups; start is what has to run the maker of the
// namespaces so that it gets one.
func (g groups) check() (start []string, err error) {
	if g.unified() {
		return g.checkUnified()
	}
	all, err := g.of("self")
	if err != nil {
		return nil, err
	}
	own := all["memory"]
	for _, tree := range slices.Sorted(maps.Keys(all)) {
		if dir := filepath.Join(g.tree, tree, all[tree]); all[tree] != own || own == "/" || !writable(dir) {
			return nil, missing("", "the control groups of this machine are of version 1, and root has not given one of "+
				"each tree to %s (%s); boot with systemd.unified_cgroup_hierarchy=1", g.user, dir)
		}
	}
	return nil, nil
}

// checkUnified prefers a scope of the user's systemd: it is neither the user's session nor the server's unit,
// so instances outlive both.
func (g groups) checkUnified() ([]string, error) {
	if run := find("systemd-run"); run != "" && g.runtime != "" {
		for _, socket := range []string{"systemd/private", "bus"} {
			if _, err := os.Stat(filepath.Join(g.runtime, socket)); err == nil {
				return []string{run, "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes"}, nil
			}
		}
	}
	all, err := g.of("self")
	if err != nil {
		return nil, err
	}
	if dir := filepath.Join(g.tree, all[""]); all[""] != "/" && writable(dir) {
		return nil, nil
	}
	return nil, missing("sudo loginctl enable-linger "+g.user+", and log in again",
		"%s has no systemd user instance (XDG_RUNTIME_DIR), which would give a control group", g.user)
}

func writable(dir string) bool {
	return unix.Access(dir, unix.W_OK) == nil && unix.Access(filepath.Join(dir, "cgroup.procs"), unix.W_OK) == nil
}

// occupy moves this process, which is alone in its group, out of the way, so that the group can pass its
// controllers on.
func (g groups) occupy() error {
	if !g.unified() {
		return nil
	}
	all, err := g.of("self")
	if err != nil {
		return err
	}
	dir := filepath.Join(g.tree, all[""])
	hold := filepath.Join(dir, holdGroup)
	if err := os.MkdirAll(hold, 0o755); err != nil { //nolint:gosec // anyone may read a control group
		return err
	}
	if err := os.WriteFile(filepath.Join(hold, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, name := range controllers {
		if !slices.Contains(strings.Fields(string(text)), name) {
			return missing("sudo mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\\nDelegate=cpu cpuset io "+
				"memory pids\\n' | sudo tee /etc/systemd/system/user@.service.d/delegate.conf && sudo systemctl daemon-reload, "+
				"and log in again", "the user's systemd has no %s controller", name)
		}
	}
	return os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+strings.Join(controllers, " +")), 0)
}

// mayMove reports whether this process may start others in the group of the holder: with version 2, it needs
// the right to the group that both have in common.
func (g groups) mayMove(group string) bool {
	all, err := g.of("self")
	if err != nil || !g.unified() {
		return err == nil
	}
	common := "/"
	theirs := strings.Split(group, "/")
	for i, name := range strings.Split(all[""], "/") {
		if i >= len(theirs) || theirs[i] != name {
			break
		}
		common = filepath.Join(common, name)
	}
	return writable(filepath.Join(g.tree, common))
}
