package census

import (
	"fmt"
	"maps"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/run/controller/usage"
)

// TestSumMembers: a member has one series for all instances of its app, and there is a limit
// for all.
func TestSumMembers(t *testing.T) {
	t.Parallel()
	instances := []*platform.Instance{{AppGUID: "a", ProcessGUID: "p"}, {AppGUID: "a", ProcessGUID: "p"},
		{AppGUID: "b", ProcessGUID: "q"}}
	measured := map[string]usage.Usage{}
	for i, one := range instances {
		one.GUID = fmt.Sprint("i", i)
		measured[one.GUID] = usage.Usage{Members: []usage.Member{{Name: "web", CPU: 0.5, Memory: 10},
			{Name: "proxy", Memory: 1, Restarts: 2}}}
	}
	got := map[memberKey]memberSum{}
	for key, sum := range sumMembers(instances, map[string]string{"p": "web", "q": "worker"}, measured) {
		got[key] = *sum
	}
	want := map[memberKey]memberSum{
		{"a", "web", "web"}: {1, 20, 0}, {"a", "web", "proxy"}: {0, 2, 4}, {"b", "worker", "web"}: {0.5, 10, 0},
		{"b", "worker", "proxy"}: {0, 1, 2},
	}
	if !maps.Equal(got, want) {
		t.Errorf("sums are %v, want %v", got, want)
	}
	for i := range memberSeries + 10 {
		one := &platform.Instance{AppGUID: fmt.Sprint("app", i)}
		one.GUID = "i0"
		instances = append(instances, one)
	}
	if n := len(sumMembers(instances, nil, measured)); n != memberSeries {
		t.Errorf("%d series, want at most %d", n, memberSeries)
	}
}
