// Package metering writes the usage events of apps, tasks, builds and service instances,
// from which the bills of a platform are made: it compares what a transaction changes
// before and after, so events are complete, whichever action makes a change.
//
// It must not import an HTTP API or a store.
//
// Imports: base/fault, platform.
package metering
