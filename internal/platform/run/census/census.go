package census

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform"
)

// scrapeTime limits what a scrape of the metrics waits for the database.
const scrapeTime = 2 * time.Second

var (
	descInstances = prometheus.NewDesc("ingot_app_instances", "Instances of apps in the database, by state.",
		[]string{"state"}, nil)
	descApps  = prometheus.NewDesc("ingot_apps", "Apps by the state that their users want.", []string{"state"}, nil)
	descTasks = prometheus.NewDesc("ingot_tasks", "Tasks that have not ended, by state.", []string{"state"}, nil)
	descJobs  = prometheus.NewDesc("ingot_service_jobs",
		"Jobs of service brokers that have not ended, by state: processing, or polling for a broker's operation.",
		[]string{"state"}, nil)
	descAccessLog = prometheus.NewDesc("ingot_router_access_log_waiting",
		"Lines of the access log that wait to be written; requests wait when there are 16384.", nil, nil)
)

// Rows counts rows of the database, which all servers that share it have in common, and lines of
// the access log of this server.
type Rows struct {
	Store platform.Store
	// Waiting returns how many lines wait to be written.
	Waiting func() int
}

// Describe implements prometheus.Collector.
func (Rows) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descInstances, descApps, descTasks, descJobs, descAccessLog} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Without the database there are no figures.
func (c Rows) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(descAccessLog, prometheus.GaugeValue, float64(c.Waiting()))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	var found []prometheus.Metric
	err := c.Store.View(ctx, func(tx platform.Tx) error {
		found = nil
		return firstError(
			countStates(&found, descInstances, tx.Instances(), platform.InstanceStarting, platform.InstanceRunning,
				platform.InstanceStopping, platform.InstanceCrashed, platform.InstanceDown),
			countStates(&found, descApps, tx.Apps(), platform.AppStarted, platform.AppStopped),
			countStates(&found, descTasks, tx.Tasks(), platform.TaskPending, platform.TaskRunning, platform.TaskCanceling),
			countStates(&found, descJobs, tx.Jobs(), platform.JobProcessing, platform.JobPolling),
		)
	})
	if err != nil {
		return
	}
	for _, m := range found {
		to <- m
	}
}

func firstError(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

func countStates[T any, S ~string](to *[]prometheus.Metric, d *prometheus.Desc, repo platform.Repo[T],
	states ...S) error {
	for _, state := range states {
		n, err := repo.Count(platform.Where("state", state))
		if err != nil {
			return err
		}
		*to = append(*to, prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), strings.ToLower(string(state))))
	}
	return nil
}
