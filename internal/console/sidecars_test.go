package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestSidecarFacts(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"name":"proxy","command":"./proxy"}`: "Command ./proxy; Starts together with the main process; After its exit the instance is stopped and restarted; " +
			"Needed yes: the instance is not ready without it",
		`{"name":"cache","command":"./cache","memory_in_mb":32,"options":{"depends_on":["main","proxy"],"restart":"always","optional":true,"ports":[6379,8081],
			"health_check":{"type":"port","timeout":20},"readiness_health_check":{"type":"http","endpoint":"/ready","interval":5},
			"env":{"B":"***","A":"***"},"stop_signal":"SIGINT","stop_grace":3,"stop_after":["main"],"pre_stop":"./flush"}}`: "Command ./cache; Memory 32 MB; Starts after the main process, proxy; " +
			"After its exit it is started again; Needed no: the instance is ready without it; Ports 6379, 8081; Health check port, healthy within 20 s; " +
			"Readiness check http /ready, every 5 s; Variables A, B; Stops after the main process, with SIGINT, within 3 s; Before it stops ./flush",
		`{"name":"migrate","command":"./migrate","options":{"before_main":true,"restart":"never"}}`: "Command ./migrate; Starts before the main process; " +
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

func TestCrashSentence(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"type":"app.sidecar.crash","data":{"index":1,"sidecar":"HELPER","exit_status":137}}`:              "Sidecar HELPER of instance 1 exited with status 137.",
		`{"type":"app.sidecar.crash","data":{"index":1,"sidecar":"HELPER"}}`:                                "Sidecar HELPER of instance 1 failed.",
		`{"type":"audit.app.process.crash","data":{"index":0,"exit_description":"Exited with status 3"}}`:   "Instance 0 crashed: Exited with status 3",
		`{"type":"app.crash","data":{"index":0}}`:                                                           "Instance 0 crashed",
		`{"type":"audit.app.update","data":{"index":0,"exit_description":"x"}}`:                             "",
		`{"type":"app.sidecar.crash","data":"not what it should be"}`:                                       "Sidecar  of instance 0 failed.",
		`{"type":"app.sidecar.crash","data":{"index":0,"sidecar":"<b>","exit_status":1,"instance":"some"}}`: "Sidecar <b> of instance 0 exited with status 1.",
	} {
		var e fullEvent
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		if got := sentence(e.Type, e.Data); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestNewestCrash(t *testing.T) {
	t.Parallel()
	now := time.Now()
	instance := func(before time.Duration) auditEvent {
		return auditEvent{Type: eventCrash, CreatedAt: now.Add(-before)}
	}
	sidecar := func(before time.Duration) auditEvent {
		return auditEvent{Type: eventSidecarCrash, CreatedAt: now.Add(-before)}
	}
	for _, test := range []struct {
		newest []auditEvent
		want   string
	}{
		{[]auditEvent{instance(0)}, eventCrash},
		{[]auditEvent{sidecar(0)}, eventSidecarCrash},
		{[]auditEvent{sidecar(0), instance(time.Second)}, eventCrash},
		{[]auditEvent{sidecar(0), instance(time.Minute)}, eventSidecarCrash},
	} {
		if got := newestCrash(test.newest).Type; got != test.want {
			t.Errorf("%v: %s, want %s", test.newest, got, test.want)
		}
	}
}
