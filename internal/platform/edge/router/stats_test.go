package router_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/edge/router"
)

func TestStats(t *testing.T) {
	t.Parallel()
	eachMode(t, func(t *testing.T, header string) {
		f := newFront(t, router.Options{})
		var all []router.Backend
		for i := range 2 {
			b := backend(t, func(w http.ResponseWriter, r *http.Request) {
				var status int
				_, _ = fmt.Sscanf(r.URL.Path, "/%d", &status)
				w.WriteHeader(status)
				fmt.Fprint(w, "12345")
			})
			b.Index = i
			b.InstanceGUID = fmt.Sprintf("i%d", i)
			all = append(all, b)
		}
		f.route("app.test", all...)
		for _, status := range []int{200, 200, 404, 500, 201, 302} {
			f.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			res := f.do(f.with("GET", fmt.Sprintf("http://app.test/%d", status), header, nil))
			_ = text(t, res.Body)
			<-f.access
		}
		f.get("http://unknown.test/")
		<-f.access
		stats := f.proxy.Stats()
		if len(stats) != 2 || stats[0].Instance != "i0" || stats[1].Index != 1 || stats[0].Requests != 3 ||
			stats[1].Requests != 3 {
			t.Fatalf("stats are %+v, want 3 requests for each of 2 instances", stats)
		}
		sum := [6]int64{}
		for _, s := range stats {
			if s.Sent != 15 || s.Active != 0 || s.Duration <= 0 || s.Quantile(0.99) <= 0 || s.App != "app" ||
				s.Process != "process" {
				t.Errorf("stats are %+v, want 15 bytes sent, none active and durations of the app", s)
			}
			for i, n := range s.Classes {
				sum[i] += n
			}
		}
		if sum != [6]int64{0, 0, 3, 1, 1, 1} {
			t.Errorf("answers by class are %v, want [0 0 3 1 1 1]", sum)
		}
		if s, ok := f.proxy.InstanceStats("i1"); !ok || s != stats[1] {
			t.Errorf("stats of i1 are %+v, found %v, want %+v", s, ok, stats[1])
		}
		if _, ok := f.proxy.InstanceStats("unknown"); ok {
			t.Error("an instance that never was")
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(f.proxy)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, family := range families {
			for _, m := range family.Metric {
				name := family.GetName()
				for _, l := range m.Label {
					name += " " + l.GetValue()
				}
				values[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
		for name, want := range map[string]float64{
			"ingot_router_refusals_total unknown_route": 1, "ingot_router_routes": 1,
			"ingot_router_app_request_duration_seconds app": 6,
			"ingot_router_request_duration_seconds":         7, "ingot_router_requests_total 4xx": 2,
			"ingot_router_instance_active_requests app i0 0": 0,
			"ingot_router_app_requests_total app 2xx":        3, "ingot_router_instance_request_duration_seconds app i0 0": 3,
		} {
			if got, ok := values[name]; !ok || got != want {
				t.Errorf("%s is %v, want %v: %v", name, got, want, values)
			}
		}
	})
}

func TestQuantile(t *testing.T) {
	t.Parallel()
	s := router.Stats{Requests: 100}
	s.Buckets[0], s.Buckets[3], s.Buckets[len(s.Buckets)-1] = 90, 9, 1
	for share, want := range map[float64]time.Duration{0.5: router.LatencyBounds()[0], 0.95: router.LatencyBounds()[3],
		0.999: time.Minute} {
		if got := s.Quantile(share); got != want {
			t.Errorf("%v: %s, want %s", share, got, want)
		}
	}
}

// The figures of an instance go with it, but not those of its app, unless that
// is gone too.
func TestStatsOfGoneInstances(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	a, b := backend(t, says("a")), backend(t, says("b"))
	a.InstanceGUID, b.InstanceGUID = "a", "b"
	f.route("app.test", a, b)
	ask := func(n int) {
		t.Helper()
		for range n {
			f.get("http://app.test/")
			<-f.access
		}
	}
	ask(4)
	soon, late := time.Now().Add(time.Minute), time.Now().Add(time.Hour)
	for _, step := range []struct {
		backends  []router.Backend
		at        time.Time
		instances int
		requests  int64
	}{
		{[]router.Backend{a, b}, late, 2, 4}, // without requests for long, but there
		{[]router.Backend{b}, soon, 2, 4},
		{[]router.Backend{b}, late, 1, 4},
		{nil, soon, 1, 4},
		{nil, late, 0, 0},
	} {
		f.route("app.test", step.backends...)
		instances, apps := router.StatsAt(f.proxy, step.at)
		var requests int64
		if apps["app"] != nil {
			requests = apps["app"].Requests
		}
		if len(instances) != step.instances || requests != step.requests {
			t.Errorf("%+v: %+v, %d requests of the app", step, instances, requests)
		}
	}
	// One that comes back begins anew.
	f.route("app.test", a)
	ask(1)
	if s, ok := f.proxy.InstanceStats("a"); !ok || s.Requests != 1 {
		t.Errorf("stats of a are %+v, found %v, want 1 request", s, ok)
	}
}

// There are never more instances in the figures than the bound.
func TestStatsAreBounded(t *testing.T) {
	t.Parallel()
	p := router.NewProxy(new(router.Table), router.Options{})
	for i := range 2100 {
		router.CountInstance(p, fmt.Sprintf("i%d", i))
	}
	if n := len(p.Stats()); n != 2000 {
		t.Errorf("%d instances are counted, want 2000", n)
	}
}

// The weight of a destination is shared by its instances, however many.
func TestWeightsOfDestinations(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	a, b := backend(t, says("a")), backend(t, says("b"))
	var all []router.Backend
	for i := range 3 {
		a.InstanceGUID, a.Destination, a.Weight = fmt.Sprintf("a%d", i), "old", 75
		all = append(all, a)
	}
	b.InstanceGUID, b.Destination, b.Weight = "b0", "new", 25
	f.route("app.test", append(all, b)...)
	got := map[string]int{}
	for range 100 {
		_, body := f.get("http://app.test/")
		got[body]++
		got[(<-f.access).Instance]++
	}
	if got["a /"] != 75 || got["b /"] != 25 || got["a0"] != 25 || got["a1"] != 25 || got["a2"] != 25 {
		t.Errorf("requests are %v, want 75 for a in 3 equal parts and 25 for b", got)
	}
}

// An instance with many routes has one set of connections, and is forgotten
// with the last of them.
func TestRoutesShareConnections(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var opened atomic.Int64
	b := rawBackend(t, func(c net.Conn, r *bufio.Reader) {
		opened.Add(1)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n"); err != nil {
				return
			}
		}
	})
	var routes []router.Route
	for i := range 50 {
		routes = append(routes, router.Route{GUID: fmt.Sprint(i), Host: fmt.Sprintf("r%d.test", i),
			Backends: []router.Backend{b}})
	}
	f.table.Replace(routes)
	f.table.Set(routes[0])
	f.table.Replace(routes)
	c, r := f.dial()
	for _, route := range routes {
		send(t, c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", route.Host)
		answerTo(t, r, "GET")
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections for one request at a time", n)
	}
	if n := router.States(f.table); n != 1 {
		t.Errorf("%d states", n)
	}
	for _, route := range routes {
		f.table.Remove(route.GUID)
	}
	if n := router.States(f.table); n != 0 {
		t.Errorf("%d states without routes", n)
	}
}

// A connection to a backend is used again after a pause, also by requests that
// must not be repeated: those look first whether it is still open.
func TestConnectionsOutlivePauses(t *testing.T) {
	t.Parallel()
	f := newFront(t, router.Options{})
	var opened atomic.Int64
	f.route("app.test", rawBackend(t, func(c net.Conn, r *bufio.Reader) {
		opened.Add(1)
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n"); err != nil {
				return
			}
		}
	}))
	c, r := f.dial()
	for range 3 {
		send(t, c, "POST / HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n")
		answerTo(t, r, "POST")
		<-time.After(300 * time.Millisecond) // longer than a backend may be silent before its client is watched
	}
	if n := opened.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
