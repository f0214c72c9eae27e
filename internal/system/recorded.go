package system

import (
	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/run/recorder"
	"ingot/internal/platform/series"
	"ingot/internal/server/health"
)

// recordedFigures are the metrics that are in the history of the platform, by their names and labels.
var recordedFigures = map[string]recorder.Figure{
	"ingot_notify_messages_total queued":        {Scope: series.Messages, Field: series.Queued},
	"ingot_notify_messages_total delivered":     {Scope: series.Messages, Field: series.Delivered},
	"ingot_notify_messages_total failed":        {Scope: series.Messages, Field: series.Failed},
	"ingot_notify_messages_total undeliverable": {Scope: series.Messages, Field: series.Undeliverable},
	"ingot_notify_messages_total unsubscribed":  {Scope: series.Messages, Field: series.Unsubscribed},
	"ingot_notify_messages_total retry":         {Scope: series.Messages, Field: series.Retried},
	"ingot_notify_waiting":                      {Scope: series.Messages, Field: series.Waiting, Level: true},
	"ingot_staging_duration_seconds staged":     {Scope: series.Builds, Field: series.Staged},
	"ingot_staging_duration_seconds failed":     {Scope: series.Builds, Field: series.BuildFailed},
	"ingot_staging_duration_seconds error":      {Scope: series.Builds, Field: series.BuildError},
	"ingot_staging_builds_running":              {Scope: series.Builds, Field: series.Building, Level: true},
	"ingot_staging_builds_waiting":              {Scope: series.Builds, Field: series.Waiting, Level: true},
}

// figures returns the figures of the history of the platform.
func (b *frontend) figures() (all []recorder.Figure) {
	found := health.Figures(b.recorded)
	for name, f := range recordedFigures {
		if value, ok := found[name]; ok {
			f.Value = value
			all = append(all, f)
		}
	}
	return all
}

// recording registers metrics for operators and for the history of the platform, which reads only these: all
// metrics of a server with many apps would cost too much every ten seconds.
func (b *frontend) recording() prometheus.Registerer { return twice{b.registry, b.recorded} }

type twice struct {
	prometheus.Registerer
	also prometheus.Registerer
}

// MustRegister implements prometheus.Registerer.
func (t twice) MustRegister(all ...prometheus.Collector) {
	t.Registerer.MustRegister(all...)
	t.also.MustRegister(all...)
}
