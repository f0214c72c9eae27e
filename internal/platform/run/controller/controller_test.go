package controller

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/controller/routing"
)

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.c = New(w.config())
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		own := newFake(t)
		config := w.config()
		config.Engine = own
		return New(config)
	})
}

func TestPublisherHonoursTheContract(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		return routing.New(routing.Config{Store: w.store, Backends: New(w.config()), Table: newTable()})
	})
}

func TestStartScaleStop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	ids := w.awaitRunning(2)
	row := w.rows()[1]
	if row.GUID != ids[1] || row.Version != "v1" || row.Host != "10.0.0.1" || row.InternalIP != "10.1.0.2" ||
		len(row.Ports) != 1 || row.Ports[0].Inside != 8080 || !strings.HasPrefix(row.Ports[0].Address, "10.0.0.1:") ||
		row.Crashes != 0 {
		t.Errorf("row is %+v, want instance %s of v1 with port 8080 and no crashes", row, ids[1])
	}
	backends := w.c.Backends("app", "web")
	if len(backends) != 2 || backends[0].InstanceGUID != ids[0] || backends[1].Index != 1 || len(backends[1].Ports) != 1 {
		t.Errorf("backends are %+v, want instances %q with one port", backends, ids)
	}
	if w.c.Backends("app", "worker") != nil || w.c.Backends("other", "web") != nil {
		t.Error("there are backends of nothing")
	}

	w.scale(4)
	four := w.awaitRunning(4)
	if !slices.Equal(four[:2], ids) {
		t.Errorf("%v became %v", ids, four)
	}
	w.scale(1)
	if one := w.awaitRunning(1); one[0] != ids[0] {
		t.Errorf("%v is left of %v", one, four)
	}
	for range 3 {
		if err := w.c.Reconcile(t.Context(), "app"); err != nil {
			t.Fatal(err)
		}
	}
	if n := w.fake.called("start"); n != 4 {
		t.Errorf("%d starts", n)
	}
	w.setState(platform.AppStopped)
	w.awaitRunning(0)
	w.await("nothing is left", func() bool { l, _ := w.fake.List(t.Context(), nil); return len(l) == 0 })
	if w.fake.called("signal") != 4 || w.fake.called("remove") != 4 {
		t.Errorf("calls are %q, want 4 signals and 4 removes", w.fake.calls)
	}
	if n := len(w.audits("app.crash")); n != 0 {
		t.Errorf("%d crashes were recorded", n)
	}
	w.setState(platform.AppStarted)
	w.awaitRunning(1)
}

func TestCellLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.begin()
	id := w.awaitRunning(1)[0]
	w.fake.write(id, "hello")
	w.await("the line", func() bool { return len(w.logs.of("APP/PROC/WEB")) == 1 })
	w.setState(platform.AppStopped)
	w.awaitRunning(0)
	w.settled()
	want := []string{
		"Cell cell-7 creating container for instance " + id,
		"Cell cell-7 successfully created container for instance " + id,
		"Starting health monitoring of container",
		"Container became healthy",
		"Cell cell-7 stopping instance " + id,
		"Cell cell-7 destroying container for instance " + id,
		"Cell cell-7 successfully destroyed container for instance " + id,
	}
	if got := w.logs.of("CELL"); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.update(func(tx platform.Tx) error {
		p, err := tx.Processes().Get("app")
		if err != nil {
			return err
		}
		p.MemoryMB, p.DiskMB, p.LogRate = 512, 256, 1000
		p.Health = platform.HealthCheck{Type: platform.CheckHTTP, Endpoint: "/up", Timeout: 7}
		p.Readiness = platform.HealthCheck{Type: platform.CheckPort, Interval: 3}
		return errors.Join(
			tx.Processes().Update(p),
			tx.Sidecars().Insert(&platform.Sidecar{AppGUID: "app", Name: "config server", Command: "./serve",
				ProcessTypes: []string{"web"}, MemoryMB: 100}),
			tx.Sidecars().Insert(&platform.Sidecar{AppGUID: "app", Name: "web", Command: "./other",
				ProcessTypes: []string{"web"}}),
			tx.Sidecars().Insert(&platform.Sidecar{AppGUID: "app", Name: "no", Command: "./no",
				ProcessTypes: []string{"worker"}}),
			tx.Destinations().Insert(&platform.Destination{RouteGUID: "route", AppGUID: "app", ProcessType: "web", Port: 9000}),
			tx.SetEnvGroup(platform.EnvGroup{Name: "running", Var: map[string]string{"COLOUR": "red", "REGION": "north"}}),
		)
	})
	w.begin()
	id := w.awaitRunning(1)[0]
	s := w.fake.specOf(id)
	if !slices.Equal(s.Ports, []int{8080, 9000}) || s.Limits.Memory != 512<<20 || s.Limits.Disk != 256<<20 ||
		s.Limits.Files != 16384 || s.Limits.PIDs == 0 || s.Limits.CPU != 512 {
		t.Errorf("spec is %+v, want ports 8080 and 9000 and the limits of the process", s)
	}
	if len(s.Files) != 1 || s.Files[0].Key != "droplet-abc" {
		t.Errorf("files are %+v, want droplet-abc only", s.Files)
	}
	want := map[string]string{
		"kind": "app", "app": "app", "process": "app", "type": "web", "index": "0", "version": "v1",
		"sources": "APP/PROC/WEB\nAPP/PROC/WEB/SIDECAR/CONFIG SERVER\nAPP/PROC/WEB/SIDECAR/WEB",
	}
	if !maps.Equal(s.Labels, want) {
		t.Errorf("labels %v", s.Labels)
	}
	l := s.Launch
	if l.Instance != id || l.User != 2000 || l.Group != 2000 || l.LogRate != 1000 ||
		l.Grace != 10*time.Second || l.OneOff {
		t.Errorf("launch is %+v, want instance %s of user 2000 with log rate 1000 and grace 10s", l, id)
	}
	if l.Health.Kind != initproto.CheckHTTP || l.Health.Endpoint != "/up" || !slices.Equal(l.Health.Ports, []int{8080}) ||
		l.Health.Startup != 7*time.Second || l.Health.Invocation != 0 || l.Health.Interval != 0 {
		t.Errorf("health check is %+v, want HTTP /up on port 8080 with the times that the process has set", l.Health)
	}
	if l.Readiness.Kind != initproto.CheckPort || !slices.Equal(l.Readiness.Ports, []int{8080, 9000}) ||
		l.Readiness.Interval != 3*time.Second {
		t.Errorf("readiness check is %+v, want ports 8080 and 9000 every 3s", l.Readiness)
	}
	if len(l.Members) != 3 || l.Members[0].Name != "web" || l.Members[1].Name != "config server" ||
		l.Members[2].Name != "sidecar/web" {
		t.Fatalf("members are %+v, want web, config server and sidecar/web", l.Members)
	}
	if got := l.Members[0].Args; !slices.Equal(got, initproto.Script("run it")) || l.Members[0].Dir != "{{home}}/app" {
		t.Errorf("web runs %q in %s, want the script of \"run it\" in {{home}}/app", got, l.Members[0].Dir)
	}
	for i, memory := range []int{412, 100, 512} {
		env := map[string]string{}
		for _, pair := range l.Members[i].Env {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		for name, want := range map[string]string{
			"COLOUR": "green", "REGION": "north", "LANG": initproto.Lang, "HOME": "{{home}}/app", "TMPDIR": "{{home}}/tmp",
			"DEPS_DIR": "{{home}}/deps", "USER": "vcap", "PORT": "{{port:8080}}", "VCAP_APP_PORT": "{{port:8080}}",
			"VCAP_APP_HOST":     "0.0.0.0",
			"CF_INSTANCE_INDEX": "0", "INSTANCE_INDEX": "0", "CF_INSTANCE_GUID": id, "INSTANCE_GUID": id,
			"CF_INSTANCE_IP": "{{host}}", "CF_INSTANCE_INTERNAL_IP": "{{ip}}", "CF_INSTANCE_PORT": "{{port:8080}}",
			"CF_INSTANCE_ADDR": "{{host}}:{{port:8080}}", "MEMORY_LIMIT": fmt.Sprint(memory, "m"), "VCAP_SERVICES": "{}",
			"PATH": defaultPath,
		} {
			if env[name] != want {
				t.Errorf("member %d: %s=%q, want %q", i, name, env[name], want)
			}
		}
		filled := strings.NewReplacer("{{port:8080}}", "61001")
		var ports []map[string]int
		if err := json.Unmarshal([]byte(filled.Replace(env["CF_INSTANCE_PORTS"])), &ports); err != nil || len(ports) != 2 ||
			ports[0]["internal"] != 61001 || ports[1]["external"] != 9000 {
			t.Errorf("CF_INSTANCE_PORTS is %s, %v, want 2 ports", env["CF_INSTANCE_PORTS"], err)
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(filled.Replace(env["VCAP_APPLICATION"])), &v); err != nil {
			t.Fatalf("VCAP_APPLICATION is %s: %v", env["VCAP_APPLICATION"], err)
		}
		limits, _ := v["limits"].(map[string]any)
		if v["port"] != 61001.0 || v["host"] != "0.0.0.0" || v["instance_id"] != id || v["instance_index"] != 0.0 ||
			limits["mem"] != float64(memory) ||
			limits["disk"] != 256.0 || v["application_id"] != "app" || v["process_type"] != "web" ||
			v["cf_api"] != "https://api.example.org" {
			t.Errorf("member %d: %v", i, v)
		}
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.begin()
	seen := map[string]bool{}
	for n := 1; n <= 3; n++ {
		id := w.awaitRunning(1)[0]
		if seen[id] {
			t.Fatal("it has the guid of one that crashed")
		}
		seen[id] = true
		w.fake.crash(id, 137)
		w.await("it was replaced", func() bool {
			return !slices.ContainsFunc(w.rows(), func(r *platform.Instance) bool { return r.GUID == id })
		})
	}
	id := w.awaitRunning(1)[0]
	w.fake.crash(id, 1)
	w.await("it waits", func() bool { return w.states() == "0CRASHED" })
	w.settled() // the log is written after the row
	row := w.rows()[0]
	if row.GUID != id || row.Crashes != 4 || !row.RestartAt.Equal(noon.Add(30*time.Second)) ||
		row.Details != "APP/PROC/WEB: Exited with status 1" || row.Ready {
		t.Errorf("row is %+v, want instance %s with 4 crashes, not ready, restarted in 30s", row, id)
	}
	if len(w.c.Backends("app", "web")) != 0 {
		t.Error("it takes requests")
	}

	lines := w.logs.of("API")
	if len(lines) != 8 || lines[6] != `Process has crashed with type: "web"` {
		t.Fatalf("API log lines are %q, want 8 with the crash in line 6", lines)
	}
	want := `App instance exited with guid app payload: {"instance":"` + id +
		`","index":0,"cellid":"cell-7","reason":"CRASHED",` +
		`"exitdescription":"APP/PROC/WEB: Exited with status 1","crashcount":4,"crashtimestamp":` + fmt.Sprint(noon.UnixNano()) + `,"version":"v1"}`
	if lines[7] != want {
		t.Errorf("got  %s\nwant %s", lines[7], want)
	}
	crashes := w.audits("audit.app.process.crash")
	if len(crashes) != 4 {
		t.Fatalf("%d audit events", len(crashes))
	}
	e := crashes[3]
	data, _ := json.Marshal(e.Data)
	want = `{"cell_id":"cell-7","crash_count":4,"crash_timestamp":` + fmt.Sprint(noon.UnixNano()) +
		`,"exit_description":"APP/PROC/WEB: Exited with status 1","index":0,"instance":"` + id + `","reason":"CRASHED","version":"v1"}`
	if string(data) != want || e.ActorType != "process" || e.ActorGUID != "app" || e.ActorName != "web" ||
		e.TargetGUID != "app" || e.TargetType != "app" || e.SpaceGUID != "space" || e.OrgGUID != "org" {
		t.Errorf("event is %+v\nwith data %s\nwant data %s", e, data, want)
	}
	short := w.audits("app.crash")[3]
	data, _ = json.Marshal(short.Data)
	if want := `{"cell_id":"cell-7","exit_description":"APP/PROC/WEB: Exited with status 1","exit_status":1,"index":0,"instance":"` + id + `","reason":"CRASHED"}`; string(data) != want || short.ActorType != "app" || short.ActorName != "shop" {
		t.Errorf("event is %+v\nwith data %s\nwant data %s", short, data, want)
	}

	w.settled()
	w.clock.Advance(29 * time.Second)
	w.settled()
	if w.states() != "0CRASHED" {
		t.Error("it did not wait:", w.states())
	}
	w.clock.Advance(time.Second)
	w.awaitRunning(1)
	if n := w.rows()[0].Crashes; n != 4 {
		t.Errorf("%d crashes", n)
	}
	w.clock.Advance(soundAfter)
	w.fake.crash(w.rows()[0].GUID, 1)
	w.await("it is forgiven", func() bool { r := w.rows(); return len(r) == 1 && r[0].Crashes == 1 })
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	var broken error = fault.New(fault.Unprocessable, "port 9000 is already in use")
	w.fake.refuse = func(engine.Spec) error { return broken }
	w.begin()
	w.await("it waits", func() bool { return w.states() == "0CRASHED" })
	w.settled() // the log is written after the row
	row := w.rows()[0]
	if row.Details != "port 9000 is already in use" || row.Crashes != 4 || row.RestartAt.IsZero() {
		t.Errorf("row is %+v, want 4 crashes, a restart time and the port in use as details", row)
	}
	if n := len(w.audits("app.crash")); n != 0 {
		t.Errorf("%d crashes are recorded of what never ran", n)
	}
	if lines := w.logs.of("CELL"); !slices.ContainsFunc(lines,
		func(l string) bool { return strings.HasSuffix(l, ": port 9000 is already in use") }) {
		t.Errorf("CELL log lines are %q, want the port in use", lines)
	}
	w.fake.set(func() { w.fake.refuse = nil })
	w.settled()
	w.clock.Advance(30 * time.Second)
	w.awaitRunning(1)
	if d := w.rows()[0].Details; d != "" {
		t.Error("it runs and has", d)
	}
}

func TestFailureDetails(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spoil func(w *world, tx platform.Tx) error
		want  string
	}{
		"no command": {func(_ *world, tx platform.Tx) error {
			d, err := tx.Droplets().Get("droplet")
			if err != nil {
				return err
			}
			d.ProcessTypes = nil
			return tx.Droplets().Update(d)
		}, `no start command for the process "web"`},
		"no droplet": {func(_ *world, tx platform.Tx) error { return tx.Droplets().Delete("droplet") },
			"droplet of this app no longer exists"},
		"no files": {func(w *world, _ platform.Tx) error { w.droplets.of = nil; return nil },
			"files of the droplet no longer exist"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.update(func(tx platform.Tx) error { return test.spoil(w, tx) })
			w.begin()
			w.await("it waits", func() bool { return w.states() == "0CRASHED" })
			if got := w.rows()[0].Details; !strings.Contains(got, test.want) {
				t.Errorf("details are %q, want %q in them", got, test.want)
			}
		})
	}
}

func TestRestartReplacesAndDrains(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	c := New(w.config())
	w.fake.onSignal = func(in engine.Instance) {
		if slices.ContainsFunc(c.Backends("app", "web"), func(b routing.Backend) bool { return b.InstanceGUID == in.ID }) {
			t.Errorf("%s is told to go and takes requests", in.ID)
		}
	}
	sink := &countingSink{}
	c.Notify(sink)
	w.run(c)
	before := w.awaitRunning(3)
	w.restart("v2")
	after := w.awaitRunning(3)
	for _, id := range before {
		if slices.Contains(after, id) {
			t.Errorf("%s was not replaced", id)
		}
	}
	if sink.count() == 0 {
		t.Error("new backends were not announced")
	}
	// Several at once: only the last counts.
	for i := range 5 {
		w.restart(fmt.Sprint("w", i))
	}
	w.awaitRunning(3)
	if n := len(w.audits("app.crash")); n != 0 {
		t.Errorf("%d crashes were recorded", n)
	}
}

type countingSink struct {
	mu sync.Mutex
	n  int
}

func (s *countingSink) AppChanged(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
}

func (s *countingSink) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func TestStopWhileCreating(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.fake.hold = make(chan struct{})
	w.begin()
	w.await("they start", func() bool { return w.states() == "0STARTING 1STARTING" })
	w.setState(platform.AppStopped)
	w.awaitRunning(0)
	close(w.fake.hold)
	w.settled()
	if n := w.fake.called("start"); n != 0 {
		t.Errorf("%d were started", n)
	}
	w.setState(platform.AppStarted)
	w.awaitRunning(2)
}

func TestStubborn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.fake.stubborn = true
	tries := 0
	w.fake.noRemove = func() error {
		if tries++; tries == 1 {
			return errors.New("busy")
		}
		return nil
	}
	w.begin()
	w.awaitRunning(1)
	w.scale(0)
	w.await("it stops", func() bool { return w.states() == "0STOPPING" })
	w.await("it was told", func() bool { return w.fake.called("signal") == 1 })
	w.settled()
	w.clock.Advance(14 * time.Second)
	w.settled()
	if w.fake.called("remove") != 0 {
		t.Error("it had no time to end")
	}
	w.clock.Advance(time.Second)
	w.await("it was tried", func() bool { w.fake.mu.Lock(); defer w.fake.mu.Unlock(); return tries == 1 })
	w.await("it is stuck", func() bool {
		a := w.c.lock("app")
		defer a.mu.Unlock()
		return !a.slots[slotKey{process: "app"}].deadline.IsZero()
	})
	w.clock.Advance(removePause)
	w.awaitRunning(0)
}

func TestRestartInstance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	before := w.awaitRunning(2)
	if err := w.restartInstance("app", 1); err != nil {
		t.Fatal(err)
	}
	w.await("it is gone", func() bool { rows := w.rows(); return rows[len(rows)-1].GUID != before[1] })
	after := w.awaitRunning(2)
	if after[0] != before[0] || len(w.audits("app.crash")) != 0 || w.rows()[1].Crashes != 0 {
		t.Errorf("%v became %v", before, after)
	}
	for _, index := range []int{-1, 2} {
		if err := w.restartInstance("app", index); !fault.Is(err, fault.NotFound) {
			t.Errorf("instance %d: %v", index, err)
		}
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.fake.manual = true
	w.update(func(tx platform.Tx) error {
		p, err := tx.Processes().Get("app")
		if err != nil {
			return err
		}
		p.Readiness.Type = platform.CheckPort
		return tx.Processes().Update(p)
	})
	w.begin()
	w.await("it starts", func() bool { l, _ := w.fake.List(t.Context(), nil); return len(l) == 1 })
	id := w.rows()[0].GUID
	w.fake.event(id, initproto.EventBody{Event: initproto.EventStarted})
	w.fake.event(id, initproto.EventBody{Event: initproto.EventHealthy})
	w.await("it runs", func() bool { return w.states() == "0RUNNING" })
	if len(w.c.Backends("app", "web")) != 0 {
		t.Error("it is not ready")
	}
	w.fake.event(id, initproto.EventBody{Event: initproto.EventReady})
	w.awaitRunning(1)
	w.fake.event(id, initproto.EventBody{Event: initproto.EventNotReady, Reason: "port"})
	w.await("it takes no requests", func() bool { return len(w.c.Backends("app", "web")) == 0 && !w.rows()[0].Ready })
	if w.states() != "0RUNNING" {
		t.Errorf("states are %q, want 0RUNNING", w.states())
	}
	w.fake.event(id, initproto.EventBody{Event: initproto.EventReady})
	w.awaitRunning(1)
	w.fake.event(id, initproto.EventBody{Event: initproto.EventExited, Status: 1})
	w.await("it takes no requests", func() bool { return len(w.c.Backends("app", "web")) == 0 })
	if len(w.audits("audit.app.process.ready")) != 2 || len(w.audits("audit.app.process.not-ready")) != 1 {
		t.Error("readiness is not recorded")
	}
	w.settled()
	said := w.logs.of("HEALTH")
	if len(said) != 3 || !strings.HasPrefix(said[0], "Container passed the readiness health check.") ||
		!strings.HasPrefix(said[1], "Container failed the readiness health check.") {
		t.Errorf("the log says %q", said)
	}
}

func TestDeletedApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.begin()
	w.awaitRunning(2)
	w.update(func(tx platform.Tx) error {
		_, err := tx.Processes().DeleteAll(platform.Where("app_guid", "app"))
		return errors.Join(err, tx.Apps().Delete("app"))
	})
	w.settled() // the log is written after the rows
	before := len(w.logs.of(""))
	w.c.Kick("app")
	w.await("nothing is left", func() bool {
		l, _ := w.fake.List(t.Context(), nil)
		return len(l) == 0 &&
			len(w.rows()) == 0
	})
	if n := len(w.logs.of("")); n != before {
		t.Errorf("%d lines became %d", before, n)
	}
	w.settled()
	w.clock.Advance(w.c.Interval)
	w.await("it is forgotten", func() bool { return len(w.c.allApps()) == 0 })
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.begin()
	id := w.awaitRunning(1)[0]
	w.store.set(errors.New("disk full"))
	w.fake.crash(id, 1)
	w.await("it is tried", func() bool {
		a := w.c.lock("app")
		defer a.mu.Unlock()
		return a.failures > 0
	})
	if w.fake.called("remove") != 0 || len(w.logs.of("API")) != 0 {
		t.Error("something was done that is not written down")
	}
	w.store.set(nil)
	w.settled()
	w.clock.Advance(time.Minute)
	w.await("it was replaced", func() bool { return len(w.rows()) == 1 && w.rows()[0].GUID != id })
	w.awaitRunning(1)
	if n := len(w.audits("app.crash")); n != 1 {
		t.Errorf("%d crashes", n)
	}
}

func TestMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, maxCreating+8)
	w.begin()
	w.awaitRunning(maxCreating + 8)
	w.setState(platform.AppStopped)
	w.await("none is left", func() bool {
		l, _ := w.fake.List(t.Context(), nil)
		return len(l) == 0 &&
			len(w.rows()) == 0
	})
	w.setState(platform.AppStarted)
	w.awaitRunning(maxCreating + 8)
}
