package router

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	instanceLabels = []string{"app_id", "instance_id", "instance_index"}
	describe       = func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("ingot_router_"+name, help, labels, nil)
	}
	descRequests = describe("instance_requests_total", "Requests to instances, by app, instance and class of the answer.",
		append(instanceLabels, "class")...)
	descAppTime = describe("app_request_duration_seconds", "Time of requests until their last byte, by app.", "app_id")
	descTime    = describe("instance_request_duration_seconds",
		"Time of requests until their last byte, by app and instance.", instanceLabels...)
	descAppAll = describe("app_requests_total",
		"Requests to an app, by class of the answer; also of instances that are gone.", "app_id", "class")
	descConns = describe("instance_tcp_connections_total", "Ended connections of TCP routes, by app and instance.",
		instanceLabels...)
	descAppConns = describe("app_tcp_connections_total",
		"Ended connections of TCP routes to an app; also of instances that are gone.", "app_id")
	descAllConns = describe("tcp_connections_total", "All ended connections of TCP routes.")
	descActive   = describe("instance_active_requests",
		"Requests and connections of TCP routes under way, by app and instance.", instanceLabels...)
	descAllTime = describe("request_duration_seconds", "Time of all requests until their last byte.")
	descAll     = describe("requests_total", "All requests, by class of the answer.", "class")
	descRefused = describe("refusals_total",
		"Requests that the router answered itself, by the word of X-Cf-RouterError.", "error")
	descRetries   = describe("retries_total", "Attempts that were made again with another instance.")
	descEjections = describe("ejections_total",
		"Instances that got no more requests for a while because they did not answer.")
	descFastPath = describe("fast_path_requests_total", "Requests served by the HTTP/1 fast path.")
	descStalled  = describe("stalled_clients_total",
		"Connections and requests aborted because the client made no progress.")
	descRoutes = describe("routes", "Routes in the table.")
)

var _ prometheus.Collector = (*Proxy)(nil)

// Describe implements prometheus.Collector.
func (p *Proxy) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descRequests, descAppTime, descAppAll, descTime, descConns, descAppConns,
		descAllConns, descActive, descAllTime, descAll, descRefused, descRetries, descEjections, descFastPath, descStalled,
		descRoutes} {
		to <- d
	}
}

// Collect implements prometheus.Collector. It has at most maxInstances instances, none that
// is gone for long, and no label chosen by a client.
func (p *Proxy) Collect(to chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	classes := func(d *prometheus.Desc, s Stats, labels ...string) {
		for class, n := range s.Classes {
			if n > 0 {
				counter(d, n, append(labels, className(class))...)
			}
		}
	}
	instances, apps := p.counters.snapshot(time.Now())
	for _, s := range instances {
		labels := []string{s.App, s.Instance, strconv.Itoa(s.Index)}
		classes(descRequests, s, labels...)
		to <- histogram(descTime, s, labels...)
		if s.Connections > 0 {
			counter(descConns, s.Connections, labels...)
		}
		to <- prometheus.MustNewConstMetric(descActive, prometheus.GaugeValue, float64(s.Active), labels...)
	}
	for app, sum := range apps {
		classes(descAppAll, *sum, app)
		to <- histogram(descAppTime, *sum, app)
		if sum.Connections > 0 {
			counter(descAppConns, sum.Connections, app)
		}
	}
	all := p.counters.all.read()
	to <- histogram(descAllTime, all)
	for class, n := range all.Classes {
		counter(descAll, n, className(class))
	}
	p.counters.refused.Range(func(word, n any) bool {
		counter(descRefused, n.(*atomic.Int64).Load(), word.(string))
		return true
	})
	counter(descAllConns, all.Connections)
	counter(descRetries, p.counters.retries.Load())
	counter(descFastPath, p.counters.fastPath.Load())
	counter(descStalled, p.counters.stalled.Load())
	counter(descEjections, p.counters.ejections.Load())
	to <- prometheus.MustNewConstMetric(descRoutes, prometheus.GaugeValue, float64(p.table.Len()))
}

func histogram(d *prometheus.Desc, s Stats, labels ...string) prometheus.Metric {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range latencyBounds {
		sum += uint64(s.Buckets[i])
		buckets[bound.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(d, uint64(s.Requests), s.Duration.Seconds(), buckets, labels...)
}

func className(class int) string {
	if class == 0 {
		return "none"
	}
	return strconv.Itoa(class) + "xx"
}
