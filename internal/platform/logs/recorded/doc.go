// Package recorded answers queries of PromQL from the history of apps, which goes back 30 days: it turns points
// into samples of metrics.
//
// It must not know where points are stored nor who may read them: callers give it a Reader, and have
// checked who asks.
//
// Imports: platform/logs/promql, platform/series.
package recorded
