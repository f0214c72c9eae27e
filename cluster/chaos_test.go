//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// rate is how many requests a second the app gets.
const rate = 200

// underLoad sends requests to an app with two instances, which it pushes the first
// time.
func (s *site) underLoad(t *testing.T) *load {
	t.Helper()
	if s.web.guid == "" {
		s.web = s.push(t, "web", 0, "-i", "2")
	}
	token := s.token(t)
	s.until(t, "two instances", func() bool {
		return s.running(token, s.web.guid) == 2 &&
			len(s.instances(t, s.web.guid)) == 2
	})
	url := "http://" + s.balancer.address + "/"
	s.until(t, "answers of the app", func() bool { return visit(caller, url, s.web.host) == "" })
	l := newLoad(t, url, s.web.host, rate)
	pause(t.Context(), 2*time.Second)
	return l
}

// most watches how many instances of an app exist at once, until the function that it
// returns is called.
func (s *site) most(t *testing.T, app string) func() int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	most := 0
	var work sync.WaitGroup
	work.Go(func() {
		for ctx.Err() == nil {
			if all, err := s.pods(ctx, appsNamespace, "ingot.dev/kind=app,ingot.dev/app="+app); err == nil {
				most = max(most, len(all))
			}
			pause(ctx, 200*time.Millisecond)
		}
	})
	return func() int {
		cancel()
		work.Wait()
		return most
	}
}

// killServer kills the server that works on an app which gets requests.
func killServer(t *testing.T, s *site) {
	l := s.underLoad(t)
	most := s.most(t, s.web.guid)
	id, pod := s.owner(t, shardOf(s.web.guid))
	killed := s.kill(t, pod)
	moved := s.until(t, "all shards", func() bool { return s.shards(t, id) == allShards })
	s.awaitServers(t, 3)
	back := time.Since(killed)
	sent, failures := l.stop()
	last := time.Duration(0)
	for _, f := range failures {
		if !strings.Contains(f.why, pod) {
			t.Errorf("a request that was not on the killed server failed: %s", f.why)
		}
		last = max(last, f.at.Sub(killed))
	}
	if n := most(); n != 2 {
		t.Errorf("%d instances of the app at once, want 2", n)
	}
	s.report.add(fmt.Sprintf("kill -9 of a server at %d requests/s", rate),
		"only requests on it fail, none after 2 s; shards moved ≤ 12 s",
		fmt.Sprintf("%d of %d failed, the last %s after the kill; shards moved after %s, server back after %s", len(failures),
			sent, millis(last), seconds(moved), seconds(back)))
}

// drainNode drains a node with an instance and at least one server.
func drainNode(t *testing.T, s *site) {
	l := s.underLoad(t)
	node := s.instances(t, s.web.guid)[0].Spec.NodeName
	began := time.Now()
	kubectl(t, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=ingot.dev/app="+
		s.web.guid, "--timeout=100s")
	kubectl(t, "", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s")
	drained := time.Since(began)
	token := s.token(t)
	s.until(t, "two instances", func() bool {
		all := s.instances(t, s.web.guid)
		return len(all) == 2 && all[0].Spec.NodeName != node && all[1].Spec.NodeName != node &&
			s.running(token, s.web.guid) == 2
	})
	s.awaitServers(t, 3)
	sent := l.none(t)
	kubectl(t, "", "uncordon", node)
	if events := s.cf(t, "events", "web"); strings.Contains(events, "crash") {
		t.Errorf("a drain counts as a crash:\n%s", events)
	}
	s.report.add(fmt.Sprintf("drain of a node with an instance, at %d requests/s", rate), "0 failed",
		fmt.Sprintf("%d requests, failures: %d; drained after %s", sent, len(l.failures), seconds(drained)))
}

// upgrade replaces all servers.
func upgrade(t *testing.T, s *site) {
	s.cf(t, "restart", "web") // back to both nodes
	l := s.underLoad(t)
	most := s.most(t, s.web.guid)
	before := s.balancer.names()
	began := time.Now()
	s.helm(t, "--set", "environment.INGOT_MESSAGES_KEPT=100h")
	s.rollout(t)
	s.awaitServers(t, 3)
	took := time.Since(began)
	sent := l.none(t)
	for _, name := range s.balancer.names() {
		if slices.Contains(before, name) {
			t.Errorf("server %s was not replaced", name)
		}
	}
	if n := most(); n != 2 {
		t.Errorf("%d instances of the app at once, want 2", n)
	}
	s.report.add(fmt.Sprintf("rolling upgrade of 3 servers at %d requests/s", rate), "0 failed",
		fmt.Sprintf("%d requests, failures: %d; took %s", sent, len(l.failures), seconds(took)))
}

// databaseAway cuts the connections to PostgreSQL for a while.
func databaseAway(t *testing.T, s *site) {
	l := s.underLoad(t)
	most := s.most(t, s.web.guid)
	before := s.guids(t)
	s.wire.cut()
	pause(t.Context(), *away)
	s.wire.join(t)
	began := time.Now()
	token := s.token(t)
	s.until(t, "all shards, and the API", func() bool {
		return s.shards(t, "") == allShards && s.call(t.Context(), token, "", http.MethodGet, "/v3/apps", nil, nil) == nil
	})
	back := time.Since(began)
	s.awaitServers(t, 3)
	pause(t.Context(), 5*time.Second) // would show a second instance
	sent := l.none(t)
	if n := most(); n != 2 {
		t.Errorf("%d instances of the app at once, want 2", n)
	}
	if after := s.guids(t); !slices.Equal(before, after) {
		t.Errorf("instances %v, want %v as before", after, before)
	}
	s.report.add(fmt.Sprintf("PostgreSQL away for %s, at %d requests/s", seconds(*away), rate),
		"0 failed, no second instance, back ≤ 5 s",
		fmt.Sprintf("%d requests, failures: %d; API and all shards back after %s", sent, len(l.failures), seconds(back)))
}

// guids returns the instances of the app, sorted.
func (s *site) guids(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, p := range s.instances(t, s.web.guid) {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return all
}

// killNode kills everything on a node with an instance and not with all servers, and cuts
// its network.
func killNode(t *testing.T, s *site) {
	s.cf(t, "restart", "web")
	l := s.underLoad(t)
	servers := map[string]int{}
	all, err := s.pods(t.Context(), systemNamespace, "app.kubernetes.io/component=server")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		servers[p.Spec.NodeName]++
	}
	node := ""
	for _, p := range s.instances(t, s.web.guid) {
		if n := p.Spec.NodeName; node == "" || servers[n] < servers[node] {
			node = n
		}
	}
	killed := time.Now()
	crash(t, node)
	token := s.token(t)
	s.until(t, "two instances on other nodes", func() bool {
		n := 0
		for _, p := range s.instances(t, s.web.guid) {
			if p.Spec.NodeName != node && p.Status.Phase == "Running" {
				n++
			}
		}
		return n == 2 && s.running(token, s.web.guid) >= 2
	})
	replaced := time.Since(killed)
	sent, failures := l.stop()
	last := time.Duration(0)
	reasons := map[string]int{}
	for _, f := range failures {
		last = max(last, f.at.Sub(killed))
		reasons[f.why]++
	}
	for why, n := range reasons {
		t.Logf("%d requests: %s", n, why)
	}
	if last > replaced {
		t.Errorf("requests failed %s after the node was killed, when it was replaced", seconds(last))
	}
	s.report.add(fmt.Sprintf("node with %d of 3 servers and an instance killed, at %d requests/s", servers[node], rate),
		"routed around ≤ 5 s, replaced ≤ 45 s",
		fmt.Sprintf("%d of %d failed, the last one sent after %s; replaced after %s", len(failures), sent, seconds(last),
			seconds(replaced)))
}

// crash kills the processes of a node and cuts its network.
func crash(t *testing.T, name string) {
	t.Helper()
	s, err := readState(filepath.Dir(filepath.Dir(os.Getenv("KUBECONFIG"))))
	if err != nil {
		t.Fatal(err)
	}
	for i, bridge := range s.Bridges {
		if fmt.Sprintf("node-%d", i) != name {
			continue
		}
		ports, err := os.ReadDir("/sys/class/net/" + bridge + "/brif")
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range ports {
			_ = command(t.Context(), "ip", "link", "set", port.Name(), "down") // it may be gone
		}
		for _, p := range s.Processes {
			if p.Name == "kubelet-"+name || p.Name == "containerd-"+name {
				if err := p.signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := (&state{Cgroups: []string{s.Cgroups[i]}}).killContainers(); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no node %s in %v", name, s.Bridges)
}
