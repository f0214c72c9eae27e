package pressure

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
)

// Stall is the share of the time that programs waited for a resource.
type Stall struct {
	Resource string  `json:"resource"` // memory, cpu, io
	Some     float64 `json:"some"`     // percent of the last minute in which at least one program waited
	Full     float64 `json:"full"`     // likewise, in which all did: nothing was done
	Short    bool    `json:"short"`    // it is memory, and so much that operators have to do something

	total map[string]float64 // seconds since the machine was started, by some and full
}

// short is the percentage of the last minute lost to waiting for memory from which it is short, and
// enough the one at which it is not any more. An idle machine that starts a large program reaches 1 or 2.
const short, enough = 5, 1

// Advice says what to do if memory is short.
const Advice = "programs wait while the kernel takes memory from others: stop or scale down apps, lower their memory " +
	"limits, or add memory"

// Machine returns the figures of this machine, as far as the kernel has any.
func Machine() []Stall { return read("/proc/pressure") }

func read(dir string) (all []Stall) {
	for _, resource := range []string{"memory", "cpu", "io"} {
		content, err := os.ReadFile(filepath.Join(dir, resource)) // fails if it is disabled
		if s, ok := parse(resource, string(content)); ok && err == nil {
			all = append(all, s)
		}
	}
	return all
}

// parse reads lines such as "some avg10=0.37 avg60=0.52 avg300=0.26 total=73582185".
func parse(resource, content string) (Stall, bool) {
	s := Stall{Resource: resource, total: map[string]float64{}}
	for line := range strings.Lines(content) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		for _, field := range fields[1:] {
			key, text, _ := strings.Cut(field, "=")
			value, err := strconv.ParseFloat(text, 64)
			switch {
			case err != nil:
				return s, false
			case key == "total":
				s.total[fields[0]] = value / 1e6
			case key == "avg60" && fields[0] == "some":
				s.Some = value
			case key == "avg60":
				s.Full = value
			}
		}
	}
	s.Short = resource == "memory" && s.Full >= short
	return s, len(s.total) > 0
}

// interval is how often the figures are looked at for the log.
const interval = 10 * time.Second

// Warnings logs when memory becomes short, and when it is not any more.
func Warnings(log *slog.Logger) background.Service {
	return background.Every(interval, watch(log, Machine))
}

func watch(log *slog.Logger, figures func() []Stall) func(context.Context) {
	warned := false
	return func(context.Context) {
		for _, s := range figures() {
			switch {
			case !warned && s.Short:
				log.Warn("the machine is short of memory", "waiting_percent", s.Full, "what", Advice)
				warned = true
			case warned && s.Resource == "memory" && s.Full < enough:
				log.Info("the machine has enough memory again", "waiting_percent", s.Full)
				warned = false
			}
		}
	}
}

// Metrics collects the figures for Prometheus.
type Metrics struct{}

var waited = prometheus.NewDesc("ingot_pressure_seconds_total",
	"Time since the machine was started in which some programs, or all, waited for memory, processors or disks; absent "+
		"if the kernel does not measure it.", []string{"resource", "waiting"}, nil)

// Describe implements prometheus.Collector.
func (Metrics) Describe(to chan<- *prometheus.Desc) { to <- waited }

// Collect implements prometheus.Collector.
func (Metrics) Collect(to chan<- prometheus.Metric) {
	for _, s := range Machine() {
		for waiting, seconds := range s.total {
			to <- prometheus.MustNewConstMetric(waited, prometheus.CounterValue, seconds, s.Resource, waiting)
		}
	}
}
