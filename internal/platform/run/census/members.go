package census

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform"
	"ingot/internal/platform/run/controller/usage"
)

var (
	memberLabels     = []string{"app_id", "process_type", "member"}
	descMemberMemory = prometheus.NewDesc("ingot_app_member_memory_bytes",
		"Memory of a member (the main process or a sidecar), in all instances of an app with sidecars that this server runs.",
		memberLabels, nil)
	descMemberCPU = prometheus.NewDesc("ingot_app_member_cpu", "Processors that a member uses, likewise.",
		memberLabels, nil)
	descMemberRestarts = prometheus.NewDesc("ingot_app_member_restarts",
		"How often a member was started again alone in the instances that run now, likewise.", memberLabels, nil)
)

const (
	// memberInstances limits the instances that a scrape measures: the same number that have
	// their own series in the router.
	memberInstances = 2000
	// memberSeries limits the members that have series.
	memberSeries = 2000
)

// Members are the figures of members of apps with sidecars. There is one series for all
// instances of an app: their number changes, and users choose it.
type Members struct {
	Store platform.Store
	Usage func(ctx context.Context, instances ...string) map[string]usage.Usage
}

// Describe implements prometheus.Collector.
func (Members) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMemberMemory, descMemberCPU, descMemberRestarts} {
		to <- d
	}
}

// memberKey identifies a series.
type memberKey struct{ app, process, member string }

type memberSum struct {
	cpu              float64
	memory, restarts int64
}

// Collect implements prometheus.Collector. Without the database there are no figures.
func (c Members) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	instances, types, err := c.instances(ctx)
	if err != nil {
		return
	}
	guids := make([]string, 0, len(instances))
	for _, one := range instances {
		guids = append(guids, one.GUID)
	}
	for key, sum := range sumMembers(instances, types, c.Usage(ctx, guids...)) {
		gauge := func(d *prometheus.Desc, value float64) {
			to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, key.app, key.process, key.member)
		}
		gauge(descMemberMemory, float64(sum.memory))
		gauge(descMemberCPU, sum.cpu)
		gauge(descMemberRestarts, float64(sum.restarts))
	}
}

// sumMembers adds up what members use in all instances of an app.
func sumMembers(instances []*platform.Instance, types map[string]string,
	usage map[string]usage.Usage) map[memberKey]*memberSum {
	sums := map[memberKey]*memberSum{}
	for _, one := range instances {
		for _, m := range usage[one.GUID].Members {
			key := memberKey{one.AppGUID, types[one.ProcessGUID], m.Name}
			sum := sums[key]
			if sum == nil {
				if len(sums) == memberSeries {
					continue
				}
				sum = &memberSum{}
				sums[key] = sum
			}
			sum.cpu += m.CPU
			sum.memory += m.Memory
			sum.restarts += int64(m.Restarts)
		}
	}
	return sums
}

// instances returns the running instances of apps with sidecars, the oldest first, and the
// types of their processes.
func (c Members) instances(ctx context.Context) (list []*platform.Instance, types map[string]string, err error) {
	err = c.Store.View(ctx, func(tx platform.Tx) error {
		sidecars, _, err := tx.Sidecars().List(platform.Query{WithoutSecrets: true})
		if err != nil || len(sidecars) == 0 {
			return err
		}
		seen := map[string]bool{}
		var apps []string
		for _, s := range sidecars {
			if !seen[s.AppGUID] {
				seen[s.AppGUID] = true
				apps = append(apps, s.AppGUID)
			}
		}
		q := platform.Where("state", platform.InstanceRunning).And(platform.InStrings("app_guid", apps))
		q.Page, q.PerPage = 1, memberInstances
		if list, _, err = tx.Instances().List(q); err != nil {
			return err
		}
		processes, _, err := tx.Processes().List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", apps)},
			WithoutSecrets: true})
		types = make(map[string]string, len(processes))
		for _, p := range processes {
			types[p.GUID] = p.Type
		}
		return err
	})
	return list, types, err
}
