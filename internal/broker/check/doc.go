// Package check asks any service broker whether it keeps to the Open Service
// Broker API, version 2.17, and reports what it finds by section of the
// specification.
//
// It behaves as a platform does: it reads the catalog, makes instances and
// bindings of one plan of each offering, changes and removes them, and sends
// what a platform must never get away with. What it made it removes again.
//
// It must know nothing of the broker it checks.
//
// Imports: the standard library only.
package check
