// Package routing fills the route table: a Publisher turns routes, destinations and the instances of apps
// into its entries.
//
//	actions ──Announce, Kick──▶ Publisher ──▶ Table (the router's, and the names of internal routes)
//	controller ──AppChanged──▶     │
//	                               └─ reads the routes that changed, and all others slowly
//
// A destination contributes only the instances that are running and ready and opened its port when they
// were started: requests never reach another process. The Publisher reads all routes once, at its start.
// After that, transactions announce the routes they changed, and only those are read; a slow walk finds
// what was not announced.
//
// The package must not import the controller or the router: it defines small interfaces for what it needs
// from them.
//
// Imports: base/background, base/clock, base/fault, platform, platform/actions.
package routing
