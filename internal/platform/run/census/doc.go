// Package census counts what the platform has, for metrics: apps, instances, tasks and jobs by
// their states, what the members of apps use, and the size of blobs.
//
// It only reads. Without the database there are no figures.
//
// Imports: base/background, platform, platform/run/controller/usage,
// platform/storage/blob, github.com/prometheus/client_golang/prometheus.
package census
