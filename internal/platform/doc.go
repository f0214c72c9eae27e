// Package platform holds the nouns of the platform and their rules: apps, processes,
// sidecars, droplets, routes, organizations, spaces, roles. Validation and
// permission rules live here, and the interface of the store that keeps them.
// There is no I/O in this package.
//
// Every part of the platform imports it.
//
// Imports: base/fault.
package platform
