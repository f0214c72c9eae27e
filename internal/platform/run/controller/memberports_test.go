package controller

import (
	"context"
	"fmt"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

func TestDividePorts(t *testing.T) {
	t.Parallel()
	sidecars := []*platform.Sidecar{
		{Name: "proxy", ProcessTypes: []string{"web"}, Options: platform.SidecarOptions{Ports: []int{9090, 9091}}},
		{Name: "other", ProcessTypes: []string{"worker"}, Options: platform.SidecarOptions{Ports: []int{9000}}},
	}
	for _, test := range []struct {
		ports []int
		want  string
	}{
		{[]int{8080}, "[8080] 1"},
		{[]int{8080, 9090, 9000}, "[8080 9000 9090] 2"},
		{[]int{9090}, "[8080 9090] 1"},
		{[]int{9091, 9000, 9090}, "[9000 9091 9090] 1"},
	} {
		all, own := divide(test.ports, "web", sidecars, 8080)
		if got := fmt.Sprint(all, " ", own); got != test.want {
			t.Errorf("%v become %s, want %s", test.ports, got, test.want)
		}
	}
}

// The reason of a port that refuses connections names the member that should listen there.
func TestPortReasons(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	w.sidecars(
		platform.Sidecar{Name: "proxy", Command: "x", ProcessTypes: []string{"web"},
			Options: platform.SidecarOptions{Ports: []int{9091}, Optional: true}},
		platform.Sidecar{Name: "web", Command: "x", ProcessTypes: []string{"web"},
			Options: platform.SidecarOptions{Ports: []int{9092}}},
	)
	var members []initproto.MemberState
	reasons := func() *PortReasons {
		return &PortReasons{Store: w.store, Tell: w.logs.Tell, Get: func(context.Context, string) (engine.Instance, error) {
			if members == nil {
				return engine.Instance{}, engine.ErrNotFound
			}
			return engine.Instance{State: initproto.State{Members: members}}, nil
		}}
	}
	for _, test := range []struct {
		port    int
		members []initproto.MemberState
		want    string
	}{
		{8080, nil, ""},
		{9090, nil, "No process of the app listens on port 9090; sidecar proxy declares 9091; sidecar web declares 9092"},
		{9091, nil, "Port 9091 belongs to sidecar proxy, which does not accept connections"},
		{9091, []initproto.MemberState{{Name: "web"}, {Name: "proxy", Exited: true, Status: 3}},
			"Port 9091 belongs to sidecar proxy, which is down (exit status 3)"},
		{9091, []initproto.MemberState{{Name: "web"}, {Name: "proxy", Exited: true, Waiting: true}},
			"Port 9091 belongs to sidecar proxy, which is down and waits to be started"},
		{9091, []initproto.MemberState{{Name: "web", Exited: true}, {Name: "proxy"}},
			"Port 9091 belongs to sidecar proxy, which does not listen on it"},
		{9092, []initproto.MemberState{{Name: "web"}, {Name: "sidecar/web", Exited: true, Status: 1}},
			"Port 9092 belongs to sidecar web, which is down (exit status 1)"},
	} {
		members = test.members
		if got := reasons().Explain("app", "app", "i", 0, test.port); got != test.want {
			t.Errorf("port %d: %q, want %q", test.port, got, test.want)
		}
	}
	// Many requests fail at the same time, and the log has one line.
	before, one := len(w.logs.of("RTR")), reasons()
	for range 3 {
		one.Explain("app", "app", "i", 2, 9090)
	}
	if lines := w.logs.of("RTR")[before:]; len(lines) != 1 ||
		lines[0] != "Instance 2: No process of the app listens on port 9090; sidecar proxy declares 9091; sidecar web "+
			"declares 9092" {
		t.Errorf("the log has %q, want one line", lines)
	}
	if got := reasons().Explain("app", "gone", "i", 0, 9090); got != "" {
		t.Errorf("of a process that is gone: %q", got)
	}
}
