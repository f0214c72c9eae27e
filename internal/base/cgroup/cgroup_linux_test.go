package cgroup

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
	"sync"
	"syscall"
	"testing"

	"ingot/internal/base/cgroup/cgrouptest"
)

// found returns the control groups of this machine, or skips the test.
func found(t *testing.T) *Tree {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making control groups needs root")
	}
	tree, err := Find("")
	if err != nil {
		t.Skip(err)
	}
	return tree
}

// sleeper is a program that does nothing, for a group.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "10000")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have been killed
		_ = cmd.Wait()         // killed
	})
	return cmd
}

// TestParents creates and removes groups of one parent concurrently: the parent exists
// as long as one of them, and is removed with the last.
func TestParents(t *testing.T) {
	t.Parallel()
	tree := found(t)
	parent := fmt.Sprintf("ingot-test-%d", os.Getpid())
	t.Cleanup(func() { _ = RemoveAll(parent) })
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 20 {
				g, err := Make(parent, Limits{Weight: 100, Spare: 1}, fmt.Sprint(n), Limits{Processes: 10})
				if err != nil {
					t.Errorf("group %d: %v", n, err)
					return
				}
				if err := g.Remove(); err != nil {
					t.Errorf("group %d: %v", n, err)
				}
			}
		})
	}
	all.Wait()
	for _, dir := range tree.dirs(tree.Path(parent, ""), ours...) {
		if exists(dir) {
			t.Errorf("%s is left", dir)
		}
	}
}

// TestSpare checks which processors a group may use that leaves some to others.
func TestSpare(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		list  string
		spare int
		want  string
	}{
		{"0-1", 0, "0,1"},
		{"0-1", 1, "1"},
		{"0", 1, "0"},
		{"2-4,6,8-9", 2, "4,6,8,9"},
		{"", 1, ""},
		{"what", 1, "what"},
	} {
		if got := without(test.list, test.spare); got != test.want {
			t.Errorf("%q without %d: %q, want %q", test.list, test.spare, got, test.want)
		}
	}
}

// TestWeights: a weight has the order and, rounded, the ratio of the shares.
func TestWeights(t *testing.T) {
	t.Parallel()
	last := 0
	for _, test := range []struct{ shares, want int }{
		{2, 1}, {128, 13}, {256, 25}, {512, 50}, {1024, 100}, {8192, 800}, {262144, 10000},
	} {
		got := WeightOf(test.shares)
		if got != test.want || got <= last {
			t.Errorf("%d shares are a weight of %d after %d, want %d", test.shares, got, last, test.want)
		}
		last = got
	}
}

// TestHigh: the kernel takes memory back a little before the limit, whatever that is.
func TestHigh(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]int64{64 << 20: 62 << 20, 1 << 30: 1<<30 - 32<<20, 8 << 30: 8<<30 - 32<<20} {
		if got := High(limit); got != want {
			t.Errorf("from %d on for a limit of %d, want %d", got, limit, want)
		}
	}
}

// TestServersGroups: the groups of servers have their limits on this machine, with either version.
func TestServersGroups(t *testing.T) {
	t.Parallel()
	tree := found(t)
	parent := fmt.Sprintf("ingot-test-groups-%d", os.Getpid())
	t.Cleanup(func() { _ = RemoveAll(parent) })
	g, err := Make(parent, Limits{Weight: 100, Spare: 1}, "one",
		Limits{Memory: 64 << 20, Processes: 10, Weight: 50, Cores: 0.5, Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	cmd := sleeper(t)
	if err := g.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if pids, err := tree.processes(g.path); err != nil || !slices.Contains(pids, cmd.Process.Pid) {
		t.Errorf("processes are %v, %v, want %d among them", pids, err, cmd.Process.Pid)
	}
	want := map[string]string{"pids:pids.max": "10", "memory:memory.limit_in_bytes": "67108864", "cpu:cpu.shares": "512",
		"cpu:cpu.cfs_quota_us": "50000"}
	if tree.V2 {
		want = map[string]string{":pids.max": "10", ":memory.max": "67108864", ":memory.high": "65011712",
			":memory.swap.max": "0", ":memory.oom.group": "1", ":cpu.weight": "50", ":cpu.max": "50000 100000"}
	}
	for name, value := range want {
		controller, file, _ := strings.Cut(name, ":")
		if controller == "" {
			controller = "memory"
		}
		path := tree.file(controller, g.path, file)
		if got := text(path); got != value && (exists(path) || file != "memory.swap.max" && file != "cpu.cfs_quota_us") {
			t.Errorf("%s is %q, want %s", path, got, value)
		}
	}
	all := text(tree.file("cpuset", "", tree.either("cpuset.cpus.effective", "cpuset.cpus")))
	if got := text(tree.file("cpuset", filepath.Dir(g.path), "cpuset.cpus")); g.Lacks == nil && got != without(all, 1) &&
		got != all {
		t.Errorf("processors are %q of %q", got, all)
	}
	if tree.V2 {
		cgrouptest.Check(t, tree.file("memory", filepath.Dir(g.path), ""), map[string]string{
			".": "cpu memory pids", "one": "",
		})
	}
	_ = cmd.Process.Kill() // it has not ended by itself
	_ = cmd.Wait()         // killed
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// TestLimitDisk: what a group of version 2 reads and writes in a second is limited by its own file; with version
// 1 by the device's.
func TestLimitDisk(t *testing.T) {
	t.Parallel()
	tree := found(t)
	if !tree.V2 || tree.at["io"] == "" {
		t.Skip("version 2 with the controller io is needed; version 1 is tested with the servers of databases")
	}
	parent := fmt.Sprintf("ingot-test-disk-%d", os.Getpid())
	t.Cleanup(func() { _ = RemoveAll(parent) })
	g, err := Make(parent, Limits{Weight: 100}, "one", Limits{Processes: 10})
	if err != nil {
		t.Fatal(err)
	}
	device, err := deviceAt("/")
	if err == nil {
		err = g.LimitDisk("/", 5<<20, 1<<20)
	}
	if errors.Is(err, syscall.ENODEV) {
		t.Skip("the root file system is not on a whole disk: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	got, want := text(tree.file("io", g.path, "io.max")), device+" rbps=5242880 wbps=1048576"
	if !strings.HasPrefix(got, want) {
		t.Errorf("limit of the disk %q, want %q", got, want)
	}
	cgrouptest.Check(t, tree.file("memory", filepath.Dir(g.path), ""),
		map[string]string{".": "io cpu memory pids", "one": ""})
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
}

// TestRemove removes groups of which one is in use: the others are gone. Killing its processes frees it.
func TestRemove(t *testing.T) {
	t.Parallel()
	tree := found(t)
	group := fmt.Sprintf("ingot-test-remove-%d", os.Getpid())
	all := []string{"a", "b", "c"}
	for _, name := range all {
		if _, err := tree.Create(filepath.Join(group, name), "pids"); err != nil {
			t.Fatal(err)
		}
	}
	cmd := sleeper(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Remove(context.Background(), group) })
	if err := tree.Move(filepath.Join(group, "a"), cmd.Process.Pid, "pids"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tree.Remove(ctx, group); err == nil || !strings.Contains(err.Error(), group+"/a") {
		t.Errorf("got %v, want an error about a", err)
	}
	if left := tree.Children(group); !slices.Equal(left, all[:1]) {
		t.Errorf("%v are left, want a", left)
	}
	killed := make(chan error, 1)
	go func() { killed <- tree.Kill(t.Context(), group) }()
	if err := cmd.Wait(); err == nil {
		t.Error("the process ended by itself")
	}
	if err := <-killed; err != nil {
		t.Error(err)
	}
	if err := tree.Remove(t.Context(), group); err != nil || len(tree.Children(group)) > 0 {
		t.Errorf("after its processes were killed: %v, %v are left", err, tree.Children(group))
	}
}

// TestNotDelegated: a root that does not exist has no controllers, and version 1 has none but the top.
func TestNotDelegated(t *testing.T) {
	t.Parallel()
	if tree, err := Find("ingot-test-none-" + strconv.Itoa(os.Getpid())); err == nil {
		t.Errorf("found %+v, want an error", tree)
	}
}
