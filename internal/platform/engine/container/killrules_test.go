//go:build linux

package container_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
)

const victimRules = "INGOT_TEST_VICTIM_RULES"

// alternating returns rules that allow port 80 of an address, and every other time 81, beside
// many others.
func alternating(to string, i int) engine.Rules {
	all := []platform.SecurityRule{rule("tcp", to, fmt.Sprint(80+i%2))}
	for n := range 200 {
		all = append(all, rule("tcp", fmt.Sprintf("192.0.2.%d", n), fmt.Sprint(1000+i%1000)))
	}
	return rules(all, nil)
}

// rulesVictim is a server that changes the rules of an instance until it is killed.
func rulesVictim(e *container.Engine, to string) error {
	fmt.Fprintln(os.Stdout, "open")
	for i := 0; ; i++ {
		if err := e.Enforce(context.Background(), alternating(to, i)); err != nil {
			return err
		}
	}
}

// A server that is killed while it writes the firewall leaves the rules of before or those of
// after: what neither allows is not reached, without a server and with the next one, which
// changes them as any other.
func TestKilledWhileEnforcing(t *testing.T) {
	t.Parallel()
	far := newElsewhere(t)
	for _, port := range []int{80, 81, 82} {
		far.listen(port)
	}
	to := far.addr.String()
	dir := enginetest.TempDir(t)
	egress := func() *container.Engine {
		t.Helper()
		e, err := container.New(t.Context(), container.Options{Root: dir, Init: enginetest.InitPath(), Egress: true})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := egress()
	s := idle("a")
	s.Zone = engine.Zone{Space: "other"}
	start(t, e, s)
	pid := processOf(t, e, "a")
	for round := range 2 {
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		killEnforcing(t, dir, to)
		reached := reachedFrom(t, pid, far.addr)
		if reached[82] || reached[80] && reached[81] {
			t.Errorf("round %d: without a server the ports reached are %v, want 80 or 81", round, reached)
		}
		e = egress()
		for i := range 2 {
			if err := e.Enforce(t.Context(), alternating(to, i)); err != nil {
				t.Fatal(err)
			}
			for _, port := range []int{80, 81, 82} {
				if got := connects(t, e, "a", far.addr, port); got != (port == 80+i) {
					t.Errorf("round %d: port %d reached: %t, want only %d", round, port, got, 80+i)
				}
			}
		}
	}
	if err := e.Remove(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// killEnforcing runs a server that changes rules, and kills it at some moment.
func killEnforcing(t *testing.T, dir, to string) {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimInit+"="+enginetest.InitPath(), victimRules+"="+to)
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
	<-time.After(time.Duration(50+rand.IntN(200)) * time.Millisecond) // any moment will do
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	if errs.Len() > 0 {
		t.Fatalf("before it was killed: %s", &errs)
	}
}

// processOf returns the id of a process of an instance.
func processOf(t *testing.T, e *container.Engine, id string) string {
	t.Helper()
	network, status := inside(t, e, id, "readlink /proc/self/ns/net")
	all, err := filepath.Glob("/proc/[0-9]*/ns/net")
	if err != nil || status != 0 {
		t.Fatalf("network of the instance: %s, exit status %d, %v", network, status, err)
	}
	for _, link := range all {
		if to, err := os.Readlink(link); err == nil && to == network {
			return strings.Split(link, "/")[2]
		}
	}
	t.Fatalf("no process has the network %s", network)
	return ""
}

// reachedFrom returns the ports that the instance reaches while no server runs.
func reachedFrom(t *testing.T, pid string, to netip.Addr) map[int]bool {
	t.Helper()
	all := map[int]bool{}
	for _, port := range []int{80, 81, 82} {
		script := fmt.Sprintf(`timeout 5 bash -c 'exec 3<>/dev/tcp/%s/%d'`, to, port)
		all[port] = exec.CommandContext(t.Context(), "nsenter", "-t", pid, "-n", "sh", "-c", script).Run() == nil
	}
	return all
}
