// Package choice chooses the engine that runs the apps of a data directory,
// remembers it in DIR/engine.json, and stops what other engines run there.
//
//	--engine   recorded    the engine is
//	NAME       any         NAME; an error if it does not work here
//	auto       NAME        NAME; if it does not work any more, it starts no instances
//	auto       nothing     the first that works: container, then process
//
// The first start decides, and later ones never weaken the isolation of apps on
// their own (decision 0009). The table in kinds.go has all engines; a new one is
// added there.
//
// It must not import the controller or other users of engines.
//
// Imports: base/background, base/datadir, base/rootless, platform/engine,
// platform/engine/container, platform/engine/kubernetes, platform/engine/local,
// platform/engine/process, github.com/prometheus/client_golang/prometheus.
package choice
