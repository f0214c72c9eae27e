package apps

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

func TestSidecarFacts(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"name":"proxy","command":"./proxy"}`: "Command ./proxy; Starts together with the main process; After its exit " +
			"the instance is stopped and restarted; " +
			"Needed yes: the instance is not ready without it",
		`{"name":"cache","command":"./cache","memory_in_mb":32,"options":{"depends_on":["main","proxy"],"restart":"always","optional":true,"ports":[6379,8081],
			"health_check":{"type":"port","timeout":20},"readiness_health_check":{"type":"http","endpoint":"/ready","interval":5},
			"env":{"B":"***","A":"***"},"stop_signal":"SIGINT","stop_grace":3,"stop_after":["main"],"pre_stop":"./flush"}}`: "Command ./cache; Memory 32 MB; Starts after the main process, proxy; " +
			"After its exit it is started again; Needed no: the instance is ready without it; Ports 6379, 8081; Health check " +
			"port, healthy within 20 s; " +
			"Readiness check http /ready, every 5 s; Variables A, B; Stops after the main process, with SIGINT, within 3 s; " +
			"Before it stops ./flush",
		`{"name":"migrate","command":"./migrate","options":{"before_main":true,"restart":"never"}}`: "Command " +
			"./migrate; Starts before the main process; " +
			"After its exit the others start if its status is 0: it runs once; Needed yes: the instance is not ready without it",
	} {
		var s sidecar
		if err := json.Unmarshal([]byte(raw), &s); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range s.facts() {
			got = append(got, f.Name+" "+f.Value)
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s\nis %s\nwant %s", raw, text, want)
		}
	}
}

func TestNewestCrash(t *testing.T) {
	t.Parallel()
	now := time.Now()
	instance := func(before time.Duration) cfapi.Event {
		return cfapi.Event{Type: page.EventCrash, CreatedAt: now.Add(-before)}
	}
	sidecar := func(before time.Duration) cfapi.Event {
		return cfapi.Event{Type: page.EventSidecarCrash, CreatedAt: now.Add(-before)}
	}
	for _, test := range []struct {
		newest []cfapi.Event
		want   string
	}{
		{[]cfapi.Event{instance(0)}, page.EventCrash},
		{[]cfapi.Event{sidecar(0)}, page.EventSidecarCrash},
		{[]cfapi.Event{sidecar(0), instance(time.Second)}, page.EventCrash},
		{[]cfapi.Event{sidecar(0), instance(time.Minute)}, page.EventSidecarCrash},
	} {
		if got := newestCrash(test.newest).Type; got != test.want {
			t.Errorf("%v: %s, want %s", test.newest, got, test.want)
		}
	}
}

// TestMembersOfInstances: an instance with sidecars has a table of its members, one without
// has none.
func TestMembersOfInstances(t *testing.T) {
	t.Parallel()
	templates := page.New(page.Options{}, page.Load(Files), nil)
	helper := cfapi.Member{Name: "<helper>", State: "RUNNING", CPU: 0.015, Mem: 4 << 20, MemQuota: new(int64(32 << 20)),
		Restarts: 2}
	if err := json.Unmarshal([]byte(`{"status":137,"reason":"out of memory","time":"2026-01-02T03:04:05Z"}`),
		&helper.LastExit); err != nil {
		t.Fatal(err)
	}
	web := cfapi.Member{Name: "web", State: "RUNNING"}
	for _, test := range []struct {
		members   []cfapi.Member
		want, not []string
	}{
		{[]cfapi.Member{web}, nil, []string{"<table"}},
		{[]cfapi.Member{web, helper}, []string{"&lt;helper&gt;", "1.5%", "of 32", "Restarts\">2</td>",
			"out of memory (status 137)", "2026-01-02"}, []string{"<helper>"}},
	} {
		b, err := templates.Render("instance-members", test.members)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range test.want {
			if !strings.Contains(string(b), want) {
				t.Errorf("%d members: no %s in %s", len(test.members), want, string(b))
			}
		}
		for _, not := range test.not {
			if strings.Contains(string(b), not) {
				t.Errorf("%d members: %s in %s", len(test.members), not, string(b))
			}
		}
	}
}
