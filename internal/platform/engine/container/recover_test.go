//go:build linux

package container_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/engine/enginetest"
)

const (
	victimDir  = "INGOT_TEST_VICTIM"
	victimInit = "INGOT_TEST_VICTIM_INIT"
	victimIdle = "INGOT_TEST_VICTIM_IDLE"
	victimStay = "INGOT_TEST_VICTIM_STAY"
)

// victim is a server that starts and removes instances until it is killed.
func victim(dir string) {
	to := os.Getenv(victimRules)
	e, err := container.New(context.Background(), container.Options{Root: dir, Init: os.Getenv(victimInit),
		Egress: to != ""})
	if err == nil && to != "" {
		err = rulesVictim(e, to)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "open")
	if os.Getenv(victimIdle) != "" {
		select {} // until it is killed
	}
	if os.Getenv(victimStay) != "" {
		if err := errors.Join(stay(e), e.Close()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for i := range 1000 {
				s := idle(fmt.Sprintf("v-%d-%d-%d", os.Getpid(), worker, i))
				s.Files = append(s.Files, keyedArchive("victim"))
				if err := e.Start(context.Background(), s); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				if i%2 == 0 {
					if err := e.Remove(context.Background(), s.ID); err != nil {
						fmt.Fprintln(os.Stderr, err)
						os.Exit(1)
					}
				}
			}
		})
	}
	wg.Wait()
}

// A server that is killed at any moment leaves instances that run, and nothing
// else that the next one does not clean up.
func TestKilled(t *testing.T) {
	t.Parallel()
	need(t)
	dir := enginetest.TempDir(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	adopted := 0
	for round := range 5 {
		var errs bytes.Buffer
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), victimDir+"="+dir, victimInit+"="+enginetest.InitPath())
		cmd.Stderr = &errs
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 5)); err != nil {
			t.Fatalf("reading the first output: %v: %s", err, &errs)
		}
		<-time.After(time.Duration(rand.IntN(800)) * time.Millisecond) // any moment will do
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
		if errs.Len() > 0 {
			t.Fatalf("before it was killed: %s", &errs)
		}

		e := open(t, dir)
		list, err := e.List(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		dirs, err := os.ReadDir(filepath.Join(dir, "instances"))
		if err != nil {
			t.Fatal(err)
		}
		if len(dirs) != len(list) {
			t.Errorf("%d directories for %d instances", len(dirs), len(list))
		}
		for _, i := range list {
			adopted++
			if !i.Running {
				t.Errorf("%s does not run", i.ID)
			}
			if out, status := inside(t, e, i.ID, `cat app/file`); status != 0 || out != "text" {
				t.Errorf("%s: output is %q, exit status %d, want text and 0", i.ID, out, status)
			}
			if round%2 == 0 {
				if err := e.Remove(t.Context(), i.ID); err != nil {
					t.Error(err)
				}
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if round%2 == 0 {
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left over:\n%s", strings.Join(left, "\n"))
			}
		}
	}
	e := open(t, dir)
	list, err := e.List(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range list {
		if err := e.Remove(t.Context(), i.ID); err != nil {
			t.Error(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
	t.Logf("%d instances were taken over", adopted)
}

// stay starts an instance that runs on, with and without layers, and one that has ended.
func stay(e *container.Engine) error {
	for id, command := range map[string]string{"runs": "echo text >out; exec sleep 100000",
		"plain": "echo text >out; exec sleep 100000", "ended": "echo text >out"} {
		s := idle(id)
		if id != "plain" {
			s.Files = append(s.Files, keyedArchive("stay"))
		}
		s.Launch.Members[0].Args = []string{"/bin/sh", "-c", command}
		if err := e.Start(context.Background(), s); err != nil {
			return err
		}
		for {
			i, err := e.Get(context.Background(), id)
			if err != nil {
				return err
			}
			written := e.Collect(context.Background(), id, "out", io.Discard) == nil
			if written && i.Running == (id != "ended") {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	return nil
}

// A server finds the disks of its instances even if the previous one mounted them in a
// mount namespace that is gone, as that of a unit of systemd with ProtectSystem=.
func TestOtherMountNamespace(t *testing.T) {
	t.Parallel()
	need(t)
	dir := enginetest.TempDir(t)
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimInit+"="+enginetest.InitPath(), victimStay+"=1")
	cmd.Stderr = &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		t.Fatalf("the first server: %v: %s", err, &errs)
	}
	e := open(t, dir)
	for _, id := range []string{"runs", "plain", "ended"} {
		var out bytes.Buffer
		if err := e.Collect(t.Context(), id, "out", &out); err != nil || !bytes.Contains(out.Bytes(), []byte("text\n")) {
			t.Errorf("%s: collecting a file: %v, got %d bytes, want its text", id, err, out.Len())
		}
		if id != "plain" {
			if err := e.Collect(t.Context(), id, "app/sub/other", &out); err != nil {
				t.Errorf("%s: collecting a file of a layer: %v", id, err)
			}
		}
	}
	for _, id := range []string{"runs", "plain"} {
		before, err := e.Usage(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if out, status := inside(t, e, id, `dd if=/dev/zero of=large bs=1M count=8 && sync`); status != 0 {
			t.Errorf("%s: writing a file: %s", id, out)
		}
		after, err := e.Usage(t.Context(), id)
		if err != nil || after.Disk < before.Disk+8<<20 {
			t.Errorf("%s: disk usage %d and then %d, %v, want 8 MiB more", id, before.Disk, after.Disk, err)
		}
	}
	for _, id := range []string{"runs", "plain", "ended"} {
		if err := e.Remove(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
}

// opening is a server that has opened an engine and does nothing, to be killed.
func opening(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimInit+"="+enginetest.InitPath(), victimIdle+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
}

// What is left of an engine whose server was killed and whose directory is gone
// is removed by the next engine, of any directory.
func TestOrphan(t *testing.T) {
	t.Parallel()
	need(t)
	dir := enginetest.TempDir(t)
	opening(t, dir)
	if len(leftovers(t, dir)) == 0 {
		t.Fatal("nothing was left, so nothing is tested")
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	opened(t, container.Options{})
	// Another engine that was opened at the same time may be at it too.
	testkit.Eventually(t, "nothing is left over", func() bool { return len(leftovers(t, dir)) == 0 })
}

// The network of a running server stays if another one does not see its directory, as in another
// mount namespace: the first instance would have no bridge.
func TestUnseenRoot(t *testing.T) {
	t.Parallel()
	_, dir := opened(t, container.Options{})
	hidden := dir + "-hidden"
	if err := os.Rename(dir, hidden); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Rename(hidden, dir); err != nil {
			t.Error(err)
		}
	})
	before := leftovers(t, dir)
	opened(t, container.Options{})
	if after := leftovers(t, dir); !slices.Equal(after, before) {
		t.Errorf("a second server left\n%s\nof\n%s", strings.Join(after, "\n"), strings.Join(before, "\n"))
	}
}

// The trial container of a killed server is not an instance of the next one.
func TestTrialLeft(t *testing.T) {
	t.Parallel()
	need(t)
	dir := enginetest.TempDir(t)
	e := open(t, dir)
	start(t, e, idle("trial-left"))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = open(t, dir)
	list, err := e.List(t.Context(), nil)
	if err != nil || len(list) != 0 {
		t.Errorf("the next server has %v, %v, want no instance", list, err)
	}
	if err := errors.Join(e.Left(), e.Close()); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over:\n%s", strings.Join(left, "\n"))
	}
}

// watchDir returns a function that returns what was made in a directory since.
func watchDir(t *testing.T, dir string) (made func() []string) {
	t.Helper()
	watch, err := syscall.InotifyInit1(syscall.IN_CLOEXEC | syscall.IN_NONBLOCK)
	if err == nil {
		t.Cleanup(func() { _ = syscall.Close(watch) })
		_, err = syscall.InotifyAddWatch(watch, dir, syscall.IN_CREATE)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() (names []string) {
		events := make([]byte, 64<<10)
		n, err := syscall.Read(watch, events)
		if err != nil && !errors.Is(err, syscall.EAGAIN) { // none
			t.Fatal(err)
		}
		for events = events[:max(n, 0)]; len(events) >= syscall.SizeofInotifyEvent; {
			length := int(binary.NativeEndian.Uint32(events[syscall.SizeofInotifyEvent-4:]))
			name := events[syscall.SizeofInotifyEvent:][:length]
			names = append(names, strings.TrimRight(string(name), "\x00"))
			events = events[syscall.SizeofInotifyEvent+length:]
		}
		return names
	}
}

// A probe leaves nothing, whether it goes well or not.
//
//nolint:paralleltest // it sets where temporary directories are, to find the probe's
func TestProbe(t *testing.T) {
	need(t)
	for name, o := range map[string]container.Options{
		"Good": {Init: enginetest.InitPath()},
		// Something that is not ingot-init and ends at once.
		"Bad": {Init: "/bin/true"},
	} {
		t.Run(name, func(t *testing.T) {
			tmp := enginetest.TempDir(t)
			t.Setenv("TMPDIR", tmp)
			made := watchDir(t, tmp)
			began := time.Now()
			err := container.Probe(t.Context(), o)
			t.Log(time.Since(began), err)
			if (err == nil) != (name == "Good") {
				t.Errorf("Probe: %v", err)
			}
			names := made()
			i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, "ingot-probe") })
			if i < 0 {
				t.Fatalf("it made no directory, but %q", names)
			}
			dir := filepath.Join(tmp, names[i])
			if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("looking for %s: error is %v, want %v", dir, err, os.ErrNotExist)
			}
			if left := leftovers(t, dir); len(left) > 0 {
				t.Errorf("left over:\n%s", strings.Join(left, "\n"))
			}
		})
	}
}

// Egress enables forwarding, and closing the engine disables it unless another
// engine needs it.
//
//nolint:paralleltest // it changes a setting of the whole machine
func TestEgress(t *testing.T) {
	need(t)
	const forwarding = "/proc/sys/net/ipv4/ip_forward"
	before := read(t, forwarding)
	e, dir := opened(t, container.Options{Egress: true})
	if got := read(t, forwarding); got != "1\n" {
		t.Errorf("forwarding: %q", got)
	}
	start(t, e, idle("a"))
	if out, status := inside(t, e, "a", `exec 3<>/dev/tcp/169.254.169.254/80`); status == 0 {
		t.Errorf("the cloud's own address is reached: %s", out)
	}
	if err := e.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	for _, l := range containertest.Links(t) {
		if strings.HasPrefix(l.Attrs().Alias, "ingot") {
			t.Skipf("%s runs beside that of %s and needs it", l.Attrs().Alias, dir)
		}
	}
	if got := read(t, forwarding); got != before && before == "0\n" {
		t.Errorf("forwarding: %q, and was %q", got, before)
	}
}
