//go:build linux

package container_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"

	"ingot/internal/engine"
	"ingot/internal/engine/container"
	"ingot/internal/engine/enginetest"
)

// hostSecret is in this process's environment and must not be in an instance's.
const hostSecret = "INGOT_TEST_SECRET"

func TestMain(m *testing.M) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
		return
	}
	if err := os.Setenv(hostSecret, "of the host"); err != nil {
		panic(err)
	}
	enginetest.Main(m)
}

var probed = sync.OnceValue(func() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return container.Probe(ctx, container.Options{Init: enginetest.InitPath()})
})

// need skips a test where containers cannot run, and says why.
func need(t *testing.T) {
	t.Helper()
	if err := probed(); err != nil {
		t.Skipf("containers cannot run here: %v", err)
	}
}

func open(t *testing.T, dir string) *container.Engine {
	t.Helper()
	e, err := container.New(t.Context(), container.Options{Root: dir, Init: enginetest.InitPath()})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	need(t)
	enginetest.Run(t, func(t *testing.T, dir string) engine.Engine { return open(t, dir) }, enginetest.Options{
		User: 2000, Group: 2000,
		KillInit: killInit,
		Leftovers: func(t *testing.T, dir string) []string {
			t.Helper()
			return leftovers(t, dir)
		},
		Many: 10,
	})
}

// initPID is the host's number of an instance's first process.
func initPID(t *testing.T, dir, id string) int {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "instances", id, "instance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Engine struct {
			Init struct {
				PID int `json:"pid"`
			} `json:"init"`
		} `json:"engine"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m.Engine.Init.PID
}

func killInit(t *testing.T, dir string, _ engine.Engine, id string) {
	t.Helper()
	if err := syscall.Kill(initPID(t, dir, id), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// leftovers names everything on this machine that belongs to the engine of a
// directory.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	real := dir
	if r, err := filepath.EvalSymlinks(dir); err == nil {
		real = r
	}
	sum := sha256.Sum256([]byte(real))
	hash := hex.EncodeToString(sum[:4])
	var left []string
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		if strings.Contains(line, real) || strings.Contains(line, hash) {
			left = append(left, "mount: "+strings.TrimSpace(line))
		}
		f := strings.Fields(line)
		if strings.Contains(line, " - cgroup") && len(f) > 4 {
			group := filepath.Join(f[4], "ingot-"+hash)
			if _, err := os.Lstat(group); !errors.Is(err, os.ErrNotExist) {
				left = append(left, "cgroup: "+group)
			}
		}
	}
	for _, l := range links(t) {
		if strings.Contains(l.Attrs().Name, hash) {
			left = append(left, "link: "+l.Attrs().Name)
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, l := range loops {
		if b, err := os.ReadFile(l); err == nil && (strings.Contains(string(b), real) || strings.Contains(string(b), hash)) {
			left = append(left, "loop device: "+strings.TrimSpace(string(b)))
		}
	}
	c, err := nftables.New()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		if strings.Contains(table.Name, hash) {
			left = append(left, "firewall table: "+table.Name)
		}
	}
	if runs, _ := filepath.Glob("/run/*" + hash + "*"); len(runs) > 0 {
		left = append(left, runs...)
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range procs {
		if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), hash) {
			left = append(left, "process: "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	if instances, _ := os.ReadDir(filepath.Join(dir, "instances")); len(instances) > 0 {
		left = append(left, fmt.Sprintf("%d instance directories", len(instances)))
	}
	slices.Sort(left)
	return left
}

// links lists the network links of this machine.
func links(t *testing.T) []netlink.Link {
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

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
