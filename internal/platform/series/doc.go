// Package series is what the platform remembers of its apps over time: points of requests, latencies,
// resource usage and crashes in three resolutions, and the compact blocks in which they are stored.
//
// It only computes: it must not import what measures (run/recorder) nor what stores
// (platformdb).
//
// Imports: the standard library only.
package series
