// Package promql evaluates the part of Prometheus' query language that clients of log-cache
// use: selectors with matchers, ranges and offsets, functions over ranges, aggregations,
// arithmetic and comparisons.
//
//	Parse ─▶ Query ─▶ Instant, Range ─▶ Source.Select
//
// It must not know where samples come from: callers implement Source.
//
// Imports: the standard library only.
package promql
