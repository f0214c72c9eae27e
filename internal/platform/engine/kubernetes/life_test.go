//go:build linux

package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/instance/initproto"
)

const patience = 90 * time.Second

// world is a cluster and an engine on it.
type world struct {
	*testing.T
	cluster   *kubetest.Cluster
	engine    *kubernetes.Engine
	displaced chan string // id and reason
}

func newWorld(t *testing.T, change ...func(*kubernetes.Options)) *world {
	t.Helper()
	w := &world{T: t, cluster: kubetest.New(t, enginetest.InitPath()), displaced: make(chan string, 100)}
	o := options(t, w.cluster)
	o.Displaced = func(id, reason string) { w.displaced <- id + ": " + reason }
	for _, f := range change {
		f(&o)
	}
	w.engine = open(t, o)
	return w
}

func (w *world) within() context.Context {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	w.Cleanup(cancel)
	return ctx
}

func specOf(id, script string) engine.Spec {
	return engine.Spec{
		ID: id, Labels: map[string]string{"kind": "app", "app": "shop", "process": "shop-web", "type": "web",
			"version": "v1"},
		Launch: initproto.Spec{
			Instance: id, Health: initproto.Check{Kind: initproto.CheckProcess}, Grace: 10 * time.Second, LogRate: -1,
			Members: []initproto.Member{{
				Name: "web", Source: "APP/PROC/WEB", Args: []string{"/bin/sh", "-c", script}, Dir: "{{home}}",
				Env: []string{"PATH=/usr/bin:/bin", "HOME={{home}}", "SECRET=of the app"},
			}},
		},
		Limits: engine.Limits{Memory: 64 << 20, Disk: 64 << 20},
	}
}

// start starts an instance that says ready, and returns its records from then on.
func (w *world) start(id string) engine.Stream {
	w.Helper()
	if err := w.engine.Start(w.within(), specOf(id, `echo ready; sleep 1000`)); err != nil {
		w.Fatalf("Start: %v", err)
	}
	s := w.records(id, 0)
	w.line(s, "ready")
	return s
}

func (w *world) records(id string, after engine.Position) engine.Stream {
	w.Helper()
	s, err := w.engine.Records(w.within(), id, after)
	if err != nil {
		w.Fatalf("Records: %v", err)
	}
	w.Cleanup(func() { _ = s.Close() })
	return s
}

// line reads up to a line.
func (w *world) line(s engine.Stream, text string) engine.Position {
	w.Helper()
	for {
		r, err := s.Next()
		if err != nil {
			w.Fatalf("waiting for the line %q: %v", text, err)
		}
		if string(r.Payload) == text {
			return engine.Position(r.Seq)
		}
	}
}

// end reads to the end and returns how many records there were.
func (w *world) end(s engine.Stream) int {
	w.Helper()
	for n := 0; ; n++ {
		_, err := s.Next()
		if errors.Is(err, io.EOF) {
			return n
		}
		if err != nil {
			w.Fatalf("waiting for the end: %v", err)
		}
	}
}

func (w *world) await(what string, so func() bool) {
	w.Helper()
	ctx := w.within()
	for !so() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			w.Fatalf("never: %s", what)
		}
	}
}

func (w *world) wantDisplaced(want string) {
	w.Helper()
	select {
	case got := <-w.displaced:
		if got != want {
			w.Errorf("displaced is %q, want %q", got, want)
		}
	case <-w.within().Done():
		w.Fatalf("never displaced, want %q", want)
	}
}

// TestUnschedulable: an instance that no node has room for is refused in the words of Cloud
// Foundry, and its Pod does not stay.
func TestUnschedulable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for message, want := range map[string]string{
		"0/2 nodes are available: 2 Insufficient memory. preemption: not helpful": engine.InsufficientMemory,
		"0/2 nodes are available: 2 Insufficient ephemeral-storage.":              engine.InsufficientDisk,
		"0/2 nodes are available: 2 node(s) had untolerated taint {gpu: true}. preemption: 0": "no node can run the " +
			"instance: 0/2 nodes are available: 2 node(s) had untolerated taint {gpu: true}",
	} {
		w.cluster.Set(kubetest.Faults{Unschedulable: message})
		var refused *engine.PlacementError
		if err := w.engine.Start(w.within(), specOf("a", "true")); !errors.As(err, &refused) || refused.Reason != want {
			t.Errorf("%s: got %v, want %q", message, err, want)
		}
		if left := w.cluster.Pods(); len(left) > 0 {
			t.Errorf("%v is left, want nothing", left)
		}
	}
	// The nodes of its isolation segment are missing.
	w.cluster.Set(kubetest.Faults{
		Unschedulable: "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. preemption: 0"})
	isolated := specOf("a", "true")
	isolated.Segment = "gpu"
	var refused *engine.PlacementError
	if err := w.engine.Start(w.within(), isolated); !errors.As(err, &refused) ||
		refused.Reason != `found no compatible cell with placement tag "gpu"` {
		t.Errorf("got %v, want a refusal that names the segment", err)
	}
	isolated.Segment = "not a label"
	if err := w.engine.Start(w.within(), isolated); !fault.Is(err, fault.Unprocessable) {
		t.Errorf("got %v, want a refusal of the segment's name", err)
	}
	w.cluster.Set(kubetest.Faults{})
	w.start("a")
}

// TestRefused: the refusals of the API server and the image, each with what users see.
func TestRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		faults kubetest.Faults
		placed bool // a *PlacementError
		want   string
	}{
		"memory": {kubetest.Faults{Refuse: func([]byte) string {
			return "exceeded quota: apps, requested: requests.memory=64Mi, used: requests.memory=1Gi, limited: " +
				"requests.memory=1Gi"
		}}, true, engine.InsufficientMemory},
		"pods": {kubetest.Faults{Refuse: func([]byte) string {
			return "exceeded quota: apps, requested: pods=1, used: pods=10, limited: pods=10"
		}}, true, "insufficient resources: instances"},
		"other quota": {kubetest.Faults{Refuse: func([]byte) string {
			return "exceeded quota: apps, requested: count/x=1, used: count/x=10, limited: count/x=10"
		}}, true, "insufficient resources: the quota of the cluster's namespace is used up"},
		"image": {kubetest.Faults{ImageError: "pull access denied"}, true, "the platform's stack image could not be pulled"},
		"node": {
			kubetest.Faults{NodeRefusal: "Pod was rejected: The node had condition: [DiskPressure]."},
			true, "a node refused the instance",
		},
		"security": {kubetest.Faults{Refuse: func([]byte) string {
			return `violates PodSecurity "restricted:latest": unrestricted capabilities`
		}}, false, "violates PodSecurity"},
	} {
		w.cluster.Set(c.faults)
		err := w.engine.Start(w.within(), specOf("a", "true"))
		var refused *engine.PlacementError
		if errors.As(err, &refused) != c.placed {
			t.Errorf("%s: got %v, want a placement error: %t", name, err, c.placed)
		}
		if c.placed && refused.Reason != c.want || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if left := w.cluster.Pods(); len(left) > 0 {
			t.Errorf("%s: %v is left, want nothing", name, left)
		}
	}
}

// TestDrain: an instance on a node that is drained is reported before it ends, and its end
// and last lines are read.
func TestDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.engine.Start(w.within(),
		specOf("a",
			`trap 'echo told; while ! [ -e go ]; do sleep 0.05; done; exit 0' TERM; echo ready; while :; do sleep 0.05; done`))
	if err != nil {
		t.Fatal(err)
	}
	s := w.records("a", 0)
	w.line(s, "ready")
	w.cluster.Evict("i-a", "EvictionByEvictionAPI", "Eviction API: evicting")
	w.wantDisplaced("a: its node is being drained")
	in, err := w.engine.Get(w.within(), "a")
	if err != nil || !in.Displaced || !in.Running {
		t.Errorf("instance is %+v, %v, want it displaced and running", in, err)
	}
	w.line(s, "told")
	p, err := w.engine.Exec(w.within(), "a", engine.ExecRequest{Args: []string{"touch", "go"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	w.end(s)
	if err := w.engine.Remove(w.within(), "a"); err != nil {
		t.Error(err)
	}
	if len(w.displaced) > 0 {
		t.Errorf("displaced again: %q", <-w.displaced)
	}
}

// TestPressure: an instance on a node that is short of resources is displaced, although its
// Pod has failed before the instance has ended.
func TestPressure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.engine.Start(w.within(),
		specOf("a", `trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.05; done`))
	if err != nil {
		t.Fatal(err)
	}
	s := w.records("a", 0)
	w.line(s, "ready")
	w.cluster.Pressure("i-a", "The node was low on resource: ephemeral-storage.")
	w.wantDisplaced("a: its node is short of resources or shuts down")
	w.line(s, "told")
	w.end(s)
	if in, err := w.engine.Get(w.within(), "a"); err != nil || !in.Displaced {
		t.Errorf("instance is %+v, %v, want it displaced", in, err)
	}
	if err := w.engine.Remove(w.within(), "a"); err != nil {
		t.Error(err)
	}
}

// TestOwnDelete: what the engine removes itself is not displaced.
func TestOwnDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a")
	if err := w.engine.Remove(w.within(), "a"); err != nil {
		t.Fatal(err)
	}
	if len(w.displaced) > 0 {
		t.Errorf("displaced: %q, want nothing", <-w.displaced)
	}
}

// TestDeleted: a Pod that disappears ends its stream, and is not found any more.
func TestDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.start("a")
	w.cluster.Remove("i-a")
	w.end(s)
	w.await("it is gone", func() bool {
		_, err := w.engine.Get(w.within(), "a")
		return errors.Is(err, engine.ErrNotFound)
	})
}

// TestKilled: the ends that ingot-init cannot report come from the Pod, and the lines that
// were not read from its log.
func TestKilled(t *testing.T) {
	t.Parallel()
	const full = `Usage of EmptyDir volume "home" exceeds the limit "64Mi". `
	for name, c := range map[string]struct {
		kill func(*kubetest.Cluster)
		want *initproto.Exit
	}{
		"memory": {
			func(c *kubetest.Cluster) { c.KillOutOfMemory("i-a") },
			&initproto.Exit{Status: 137, OOM: true, Description: "Instance was killed (out of memory)"},
		},
		"disk": {
			func(c *kubetest.Cluster) { c.Exceed("i-a", full) },
			&initproto.Exit{Status: 137,
				Description: `Instance exceeded its disk limit and was stopped (Usage of EmptyDir volume "home" exceeds the limit "64Mi")`},
		},
		"unknown": {func(c *kubetest.Cluster) { c.KillInit("i-a") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.start("a")
			position := w.line(w.records("a", 0), "ready")
			_ = s.Close()
			c.kill(w.cluster)
			// A server that was away reads what it has not read yet, and no line twice.
			w.await("it has ended", func() bool { in, err := w.engine.Get(w.within(), "a"); return err == nil && !in.Running })
			var log []string
			rest := w.records("a", position)
			for {
				r, err := rest.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if engine.Position(r.Seq) <= position {
					t.Errorf("record %d comes again after %d", r.Seq, position)
				}
				log = append(log, string(r.Payload))
			}
			if slices.Contains(log, "ready") {
				t.Errorf("the log is %q, want nothing that is known", log)
			}
			in, err := w.engine.Get(w.within(), "a")
			if err != nil || fmt.Sprint(in.State.Exit) != fmt.Sprint(c.want) && (c.want == nil || *in.State.Exit != *c.want) {
				t.Errorf("exit is %+v, %v, want %+v", in.State.Exit, err, c.want)
			}
			if err := rest.Ack(position); err != nil {
				t.Errorf("Ack after the end: %v", err)
			}
			if len(w.displaced) > 0 {
				t.Errorf("displaced: %q, want a crash", <-w.displaced)
			}
		})
	}
}

// TestNodeLost: an instance on a node that does not answer is displaced, and its Pod is
// deleted by force when its turn comes. Those on other nodes are not affected.
func TestNodeLost(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]bool{"killed": true, "cut off": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *kubernetes.Options) { o.Silence, o.ForceAfter = time.Second, time.Second })
			streams := map[string]engine.Stream{}
			for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
				streams[id] = w.start(id)
			}
			// Only one of the instances is on the lost node.
			node := w.cluster.Node("i-a")
			for id := range streams {
				if id != "a" && w.cluster.Node("i-"+id) == node {
					if err := w.engine.Remove(w.within(), id); err != nil {
						t.Fatal(err)
					}
				}
			}
			w.cluster.LoseNode(node, kill)
			read := make(chan error, 1)
			go func() {
				_, err := streams["a"].Next()
				for err == nil {
					_, err = streams["a"].Next()
				}
				read <- err
			}()
			w.wantDisplaced("a: its node does not answer")
			if err := <-read; errors.Is(err, io.EOF) {
				t.Error("the stream ended as if the instance had")
			}
			if err := w.engine.Remove(w.within(), "a"); err != nil {
				t.Errorf("Remove: %v", err)
			}
			if slices.Contains(w.cluster.Pods(), "i-a") {
				t.Error("the Pod is left")
			}
			if len(w.displaced) > 0 {
				t.Errorf("displaced: %q, want no other", <-w.displaced)
			}
		})
	}
}

// TestHalfLost: all instances on a lost node are displaced, though they are half of all,
// because those on the other node answer. New instances avoid the node.
func TestHalfLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *kubernetes.Options) { o.Silence, o.ForceAfter = time.Second, time.Second })
	node, lost := "", 0
	for _, id := range []string{"a", "b", "c", "d"} {
		s := w.start(id)
		if node == "" {
			node = w.cluster.Node("i-" + id)
		}
		if w.cluster.Node("i-"+id) == node {
			lost++
		}
		go func() {
			_, err := s.Next()
			for err == nil {
				_, err = s.Next()
			}
		}()
	}
	if lost != 2 {
		t.Fatalf("%d of 4 instances are on %s, want 2", lost, node)
	}
	w.cluster.LoseNode(node, true)
	for range lost {
		select {
		case got := <-w.displaced:
			if !strings.HasSuffix(got, ": its node does not answer") {
				t.Errorf("displaced: %s", got)
			}
		case <-w.within().Done():
			t.Fatal("an instance on the lost node is never displaced")
		}
	}
	if err := w.engine.Start(w.within(), specOf("e", "exec sleep 1000")); err != nil {
		t.Fatal(err)
	}
	var next struct {
		Spec struct{ Affinity json.RawMessage }
	}
	if err := json.Unmarshal(w.cluster.Object("pods", "i-e"), &next); err != nil {
		t.Fatal(err)
	}
	if text := string(next.Spec.Affinity); !strings.Contains(text, "NotIn") || !strings.Contains(text, node) {
		t.Errorf("affinity of the next Pod: %s, want that it avoids %s", text, node)
	}
}

// TestCutOff: when all agents fall silent, it is the server that is cut off: it replaces
// nothing.
func TestCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *kubernetes.Options) { o.Silence = time.Second })
	failed := make(chan error, 4)
	for _, id := range []string{"a", "b", "c", "d"} {
		s := w.start(id)
		go func() {
			_, err := s.Next()
			for err == nil {
				_, err = s.Next()
			}
			failed <- err
		}()
	}
	for _, node := range kubetest.Nodes {
		w.cluster.LoseNode(node, true)
	}
	for range 4 {
		<-failed
	}
	if n := len(w.displaced); n > 2 {
		t.Errorf("%d of 4 instances are displaced, want those of the first node at most", n)
	}
}

// TestAPIServerAway: running instances, their logs and commands go on, nothing looks as if
// it were gone, and the watch continues afterwards.
func TestAPIServerAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	err := w.engine.Start(w.within(),
		specOf("a", `echo ready; while :; do if [ -e go ]; then echo went; rm go; fi; sleep 0.05; done`))
	if err != nil {
		t.Fatal(err)
	}
	s := w.records("a", 0)
	w.line(s, "ready")
	w.cluster.Set(kubetest.Faults{Away: true})
	list, err := w.engine.List(w.within(), nil)
	if err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("list is %+v, %v, want the running instance", list, err)
	}
	p, err := w.engine.Exec(w.within(), "a", engine.ExecRequest{Args: []string{"touch", "go"}})
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	if status, err := p.Wait(); status != 0 || err != nil {
		t.Errorf("status is %d, %v, want 0", status, err)
	}
	_ = p.Close()
	w.line(s, "went")
	short, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	for name, err := range map[string]error{
		"Get of another": func() error { _, err := w.engine.Get(short, "b"); return err }(),
		"Remove":         w.engine.Remove(short, "b"),
		"Start":          w.engine.Start(short, specOf("c", "true")),
	} {
		var refused *engine.PlacementError
		if err == nil || errors.Is(err, engine.ErrNotFound) || errors.As(err, &refused) {
			t.Errorf("%s: got %v, want an error of the connection", name, err)
		}
	}
	w.cluster.Set(kubetest.Faults{})
	w.start("d")
	if len(w.displaced) > 0 {
		t.Errorf("displaced: %q, want nothing", <-w.displaced)
	}
}

// TestWatch: watches that end, expire, repeat events or are late change nothing.
func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start("a")
	for name, fault := range map[string]func(){
		"broken":    w.cluster.BreakWatches,
		"expired":   func() { w.cluster.Compact(); w.cluster.BreakWatches() },
		"duplicate": func() { w.cluster.Set(kubetest.Faults{Duplicate: true}) },
		"late":      func() { w.cluster.Set(kubetest.Faults{Late: 300 * time.Millisecond}) },
	} {
		fault()
		w.start(name)
		if err := w.engine.Remove(w.within(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if list, err := w.engine.List(w.within(), nil); err != nil || len(list) != 1 || list[0].ID != "a" {
			t.Errorf("%s: list is %+v, %v, want a", name, list, err)
		}
	}
}

// TestSecondServer: another server of the installation sees the instances, and can use
// them; a server of another installation does not.
func TestSecondServer(t *testing.T) {
	t.Parallel()
	var same kubernetes.Options
	w := newWorld(t, func(o *kubernetes.Options) { same = *o })
	w.start("a")
	second := open(t, same)
	list, err := second.List(w.within(), nil)
	if err != nil || len(list) != 1 || list[0].State.Phase != initproto.Running || list[0].Labels["type"] != "web" {
		t.Errorf("list is %+v, %v, want the running instance", list, err)
	}
	if err := second.Start(w.within(), specOf("a", "echo again")); err != nil {
		t.Errorf("Start of an existing one: %v", err)
	}
	other := same
	other.Key = []byte("another installation")
	if list, err := open(t, other).List(w.within(), nil); err != nil || len(list) != 0 {
		t.Errorf("another installation sees %+v, %v, want nothing", list, err)
	}
}
