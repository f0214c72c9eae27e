package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// TestStartOrder: a step that runs once comes first, then the sidecar that the main process
// waits for, then the main process.
func TestStartOrder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "order")
	web := shell("web", "echo web >> "+file+"; echo up; "+forever)
	port := freePort(t)
	proxy := actor(t, "proxy", fmt.Sprint("listen 127.0.0.1:", port))
	proxy.Args = []string{"sh", "-c", "echo proxy >> " + file + "; exec " + proxy.Args[0]}
	proxy.Health = &initproto.Check{Kind: initproto.CheckPort, Ports: []int{port}}
	setup := shell("setup", "sleep 0.2; echo setup >> "+file)
	web.After, proxy.After, setup.Restart = []string{"proxy"}, []string{"setup"}, initproto.RestartNever
	proxy.StopAfter = []string{"web"}
	i := start(t, spec(web, proxy, setup))
	i.untilAll("v0 ready", "o0 up")
	i.signal(syscall.SIGTERM)
	if got := i.end(); !got.Stopped || got.Description != "" {
		t.Errorf("exit is %+v, want that it was stopped", got)
	}
	content, err := os.ReadFile(file)
	if err != nil || string(content) != "setup\nproxy\nweb\n" {
		t.Errorf("started in the order %q (%v), want setup, proxy, web", content, err)
	}
	all := i.transcript()
	if web, proxy := strings.Index(all, "v0 exited"), strings.Index(all, "v1 exited"); web < 0 || proxy < web {
		t.Errorf("web stopped at %d and proxy at %d, want web first:\n%s", web, proxy, all)
	}
}

// TestRestart: a sidecar that is killed starts again, and the instance is not ready meanwhile.
func TestRestart(t *testing.T) {
	t.Parallel()
	a := shell("a", "echo up; "+forever)
	a.Restart = initproto.RestartAlways
	i := start(t, spec(shell("web", forever), a))
	i.untilAll("v0 ready", "o1 up")
	state, err := readState(i.dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(state.Members[1].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	i.until("v1 exited")
	i.until("v0 not-ready")
	i.until("v1 restarted")
	i.until("v0 ready")
	now, err := readState(i.dir)
	if err != nil || now.Phase != initproto.Running || now.Members[1].Restarts != 1 ||
		now.Members[1].PID == state.Members[1].PID {
		t.Errorf("the state is %+v (%v), want one restart and another process", now, err)
	}
	i.signal(syscall.SIGTERM)
	if got := i.end(); !got.Stopped {
		t.Errorf("exit is %+v, want that it was stopped", got)
	}
}

// TestStopOfMembers: the own signal, the command before it, and the own grace period.
func TestStopOfMembers(t *testing.T) {
	t.Parallel()
	// Its lines and those of the command before come through two pipes, in any order.
	before := filepath.Join(t.TempDir(), "before")
	a := shell("a", `trap 'test -e `+before+
		` && echo interrupted; exit 0' INT; echo up; while :; do sleep 1000 & wait; done`)
	a.StopSignal, a.PreStop = int(syscall.SIGINT), []string{"/bin/sh", "-c", "echo goodbye; echo > " + before}
	stubborn := shell("stubborn", `trap '' TERM; echo up; while :; do sleep 1000 & wait; done`)
	stubborn.Grace = 100 * time.Millisecond
	s := spec(shell("web", forever), a, stubborn)
	s.Grace = time.Hour
	i := start(t, s)
	i.untilAll("v0 ready", "o1 up", "o2 up")
	i.signal(syscall.SIGTERM)
	i.end()
	if got := slices.Sorted(slices.Values(i.lines(initproto.Stdout, 1))); !slices.Equal(got, []string{"Exit status 0",
		"goodbye", "interrupted", "up"}) {
		t.Errorf("the sidecar wrote %q, want the command before the stop and the signal", got)
	}
	if got := i.lines(initproto.Stdout,
		2); got[len(got)-1] != "Exit status 137 (exceeded 100ms graceful shutdown interval)" {
		t.Errorf("the stubborn sidecar wrote %q, want that it was killed", got)
	}
}

// TestMemberHealth: a sidecar that never listens is started again, and the instance does not
// become healthy without it.
func TestMemberHealth(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	a := shell("a", forever)
	a.Restart = initproto.RestartAlways
	check := initproto.Check{Kind: initproto.CheckPort, Ports: []int{port}, Startup: 100 * time.Millisecond}
	a.Health = &check
	i := start(t, spec(shell("web", forever), a))
	i.until("v1 member-unhealthy")
	i.until("v1 exited")
	i.until("v1 restarted")
	if all := i.transcript(); strings.Contains(all, "healthy ready") || strings.Contains(all, "v0 ready") {
		t.Errorf("the instance is ready without its sidecar:\n%s", all)
	}
	i.signal(syscall.SIGTERM)
	i.end()
}

// TestSoakKillMembers kills members at random, with every policy: no process is left, and the
// records and the state agree.
func TestSoakKillMembers(t *testing.T) {
	t.Parallel()
	kills := 12
	if os.Getenv("INGOT_SOAK") == "1" {
		kills = 1000
	}
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for done := 0; done < kills; {
		members := []initproto.Member{shell("web", "echo up; "+forever)}
		for n, policy := range []initproto.Restart{initproto.RestartDefault, initproto.RestartNever,
			initproto.RestartOnFailure, initproto.RestartAlways} {
			m := shell(fmt.Sprint("s", n), "echo up; "+forever)
			m.Restart, m.Optional = policy, r.IntN(2) == 0
			members = append(members, m)
		}
		i := start(t, spec(members...))
		i.untilAll("v0 ready", "o0 up", "o1 up", "o2 up", "o3 up", "o4 up")
		for ; done < kills; done++ {
			state, err := readState(i.dir)
			if err != nil {
				t.Fatal(err)
			}
			victim := 1 + r.IntN(4)
			if r.IntN(20) == 0 {
				victim = 0
			}
			m := state.Members[victim]
			if state.Phase != initproto.Running || m.Exited || m.Waiting {
				break
			}
			if err := syscall.Kill(m.PID, syscall.SIGKILL); err != nil {
				break // it is being started again
			}
			x := body(i.until(fmt.Sprintf("v%d exited", victim)))
			if lives := members[victim].Optional || members[victim].Restart == initproto.RestartOnFailure ||
				members[victim].Restart == initproto.RestartAlways; victim > 0 && lives {
				if x.Restart == 0 && !x.Harmless {
					t.Errorf("member %d: %+v, want that the instance lives", victim, x)
				}
				if x.Restart > 2*time.Second {
					done++
					break // the pauses double: another instance
				}
				if x.Restart > 0 {
					i.until(fmt.Sprintf("v%d restarted", victim))
				}
				continue
			}
			if x.Restart > 0 || x.Harmless {
				t.Errorf("member %d: %+v, want that the instance ends", victim, x)
			}
			done++
			break
		}
		i.signal(syscall.SIGTERM)
		i.end()
		if state, err := readState(i.dir); err != nil || state.Phase != initproto.Ended ||
			slices.ContainsFunc(state.Members, func(m initproto.MemberState) bool { return !m.Exited }) {
			t.Errorf("the last state is %+v (%v), want that all have ended", state, err)
		}
	}
}
