package controller

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/instance/initproto"
)

// order returns members whose sidecars have these options; the first is the main process.
func order(t *testing.T, options ...platform.SidecarOptions) ([]initproto.Member, error) {
	t.Helper()
	members := []initproto.Member{{Name: "web"}}
	var sidecars []*platform.Sidecar
	for i, o := range options {
		name := fmt.Sprint("s", i)
		members = append(members, initproto.Member{Name: name})
		sidecars = append(sidecars, &platform.Sidecar{Name: name, Options: o})
	}
	return members, applyOptions(&platform.Droplet{}, members, sidecars, 10*time.Second)
}

func TestSidecarOrder(t *testing.T) {
	t.Parallel()
	members, err := order(t, platform.SidecarOptions{BeforeMain: true},
		platform.SidecarOptions{StopAfter: []string{"main"}, StopGrace: 3},
		platform.SidecarOptions{DependsOn: []string{"elsewhere"}})
	if err != nil {
		t.Fatal(err)
	}
	web, first, last := members[0], members[1], members[2]
	if got := fmt.Sprint(web.After, first.StopAfter, last.StopAfter, members[3].After); got != "[s0] [web] [web] []" {
		t.Errorf("the order is %s", got)
	}
	if web.Grace != 7*time.Second || last.Grace != 3*time.Second {
		t.Errorf("web has %s and the last %s to stop, want 7s and 3s", web.Grace, last.Grace)
	}
}

// Sidecars that wait for each other are refused, however they came to be: the server must not
// follow them forever.
func TestSidecarCycles(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]platform.SidecarOptions{
		{{DependsOn: []string{"s1"}}, {DependsOn: []string{"s0"}}},
		{{StopAfter: []string{"s1"}}, {StopAfter: []string{"s0"}}},
		{{BeforeMain: true, DependsOn: []string{"main"}}, {}},
	} {
		if _, err := order(t, pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), "wait for each other") {
			t.Errorf("%+v: got %v, want a refusal", pair, err)
		}
	}
}

// An order with very many ways through it takes no time.
func TestManySidecars(t *testing.T) {
	t.Parallel()
	options := make([]platform.SidecarOptions, 200)
	for i := range options {
		for other := range i {
			options[i].StopAfter = append(options[i].StopAfter, fmt.Sprint("s", other))
		}
	}
	if _, err := order(t, options...); err != nil {
		t.Fatal(err)
	}
}
