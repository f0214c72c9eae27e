//go:build linux

package containertest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"ingot/internal/base/rootless"
	"ingot/internal/base/testkit"
)

// Engine finds the resources of an engine on this machine without asking the engine.
type Engine struct {
	Root string // the directory, with links resolved
	name string // part of the names of all its resources
}

// Of returns the Engine of a directory.
func Of(dir string) Engine {
	root := dir
	if r, err := filepath.EvalSymlinks(dir); err == nil {
		root = r
	}
	sum := sha256.Sum256([]byte(root))
	return Engine{Root: root, name: hex.EncodeToString(sum[:4])}
}

// Runc returns the directory of runc's state.
func (e Engine) Runc() string { return "/run/ingot-" + e.name + "/runc" }

// Table returns the name of the firewall tables.
func (e Engine) Table() string { return "ingot-" + e.name }

// InitPID returns the host's pid of an instance's first process.
func (e Engine) InitPID(t testing.TB, id string) int {
	t.Helper()
	var m struct {
		Engine struct {
			Init struct {
				PID int `json:"pid"`
			} `json:"init"`
		} `json:"engine"`
	}
	testkit.Must(t, json.Unmarshal([]byte(read(t, filepath.Join(e.Root, "instances", id, "instance.json"))), &m))
	return m.Engine.Init.PID
}

// Processes returns the processes of an instance: host pids by pids inside.
func (e Engine) Processes(t testing.TB, id string) map[int]int {
	t.Helper()
	all := map[int]int{}
	for _, tree := range e.groups(t) {
		text, err := os.ReadFile(filepath.Join(tree, id, "cgroup.procs"))
		if err != nil {
			continue // it is in another tree
		}
		for word := range strings.FieldsSeq(string(text)) {
			status, err := os.ReadFile("/proc/" + word + "/status")
			if err != nil {
				continue // it has just ended
			}
			host, _ := strconv.Atoi(word)
			for line := range strings.Lines(string(status)) {
				if numbers, ok := strings.CutPrefix(line, "NSpid:"); ok {
					f := strings.Fields(numbers)
					inside, _ := strconv.Atoi(f[len(f)-1])
					all[inside] = host
				}
			}
		}
	}
	return all
}

// groups returns where the engine's control groups may be: in every tree, below the slice of systemd
// or not.
func (e Engine) groups(t testing.TB) (paths []string) {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if f := strings.Fields(line); strings.Contains(line, " - cgroup") && len(f) > 4 {
			root := filepath.Join(f[4], rootless.Group())
			paths = append(paths, filepath.Join(root, "ingot-"+e.name), filepath.Join(root, "ingot.slice", "ingot-"+e.name))
		}
	}
	return paths
}

// Group returns the parent of the engine's control groups.
func (e Engine) Group(t testing.TB) string {
	t.Helper()
	for _, path := range e.groups(t) {
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	t.Fatalf("ingot-%s has no control group", e.name)
	return ""
}

// Left lists everything on this machine that belongs to the engine, each prefixed with its
// kind and a colon.
func (e Engine) Left(t testing.TB) []string {
	t.Helper()
	ours := func(text string) bool { return strings.Contains(text, e.Root) || strings.Contains(text, e.name) }
	var left []string
	add := func(kind, what string) { left = append(left, kind+": "+strings.TrimSpace(what)) }
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if ours(line) {
			add("mount", line)
		}
	}
	for _, group := range e.groups(t) {
		if _, err := os.Lstat(group); !errors.Is(err, os.ErrNotExist) {
			add("cgroup", group)
		}
		below, _ := filepath.Glob(group + "/*/cgroup.procs")
		for _, one := range below {
			add("cgroup", filepath.Dir(one))
		}
	}
	for _, l := range Links(t) {
		if strings.Contains(l.Attrs().Name, e.name) {
			add("link", l.Attrs().Name)
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, l := range loops {
		if b, err := os.ReadFile(l); err == nil && ours(string(b)) {
			add("loop device", string(b))
		}
	}
	c, err := nftables.New()
	testkit.Must(t, err)
	tables, err := c.ListTables()
	testkit.Must(t, err)
	for _, table := range tables {
		if strings.Contains(table.Name, e.name) {
			add("firewall table", table.Name)
		}
	}
	runs, _ := filepath.Glob("/run/*" + e.name + "*")
	for _, r := range runs {
		add("directory", r)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), e.name) {
			kind := "process"
			if strings.Contains(string(b), "\x00--hold\x00") { // it runs as long as the engine does
				kind = "holder"
			}
			add(kind, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	if instances, _ := os.ReadDir(filepath.Join(e.Root, "instances")); len(instances) > 0 {
		add("directory", fmt.Sprintf("%d instances", len(instances)))
	}
	slices.Sort(left)
	return left
}

// Links returns the names of the engine's links, by their indexes.
func (e Engine) Links(t testing.TB) map[int]string {
	t.Helper()
	names := map[int]string{}
	for _, l := range Links(t) {
		if a := l.Attrs(); strings.Contains(a.Name, e.name) {
			names[a.Index] = a.Name
		}
	}
	return names
}

// Links lists the network links of this machine.
func Links(t testing.TB) []netlink.Link {
	t.Helper()
	for {
		list, err := netlink.LinkList()
		if err == nil {
			return list
		}
		if !errors.Is(err, netlink.ErrDumpInterrupted) { // else it changed meanwhile
			t.Fatal(err)
		}
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	testkit.Must(t, err)
	return string(b)
}
