// Package recorder measures apps every 10 seconds and stores the points of their series: requests by the
// router, what instances use by the engine, and crashes by the controller.
//
// A server records what it runs and what goes through its router. Points wait in memory for a
// minute at most, and those of an app are written together, so that writes are few.
//
// The package must not import HTTP handlers nor the store.
//
// Imports: base/background, platform/edge/router, platform/run/controller,
// platform/run/controller/usage, platform/series.
package recorder
