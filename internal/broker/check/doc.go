// Package check tests any service broker for conformance with the Open Service
// Broker API, version 2.17, and reports violations by section of the
// specification.
//
// It acts as a platform: it reads the catalog, creates instances and
// bindings of one plan of each offering, updates and deletes them, and sends
// requests that a broker must reject. It deletes everything it created.
//
// It must not depend on the broker it checks.
//
// Imports: base/background, base/pattern.
package check
