// Package platform defines the types of the application platform and their rules:
// apps, processes, sidecars, droplets, routes, services, organizations, spaces and
// roles, what values they may have (CheckAppName and others), and who may do what
// with them (permissions.go). It also defines Store, the interface of the database
// that keeps them. There is no I/O in this package.
//
// Every other package of the platform imports it.
//
// Imports: base/fault, base/pattern.
package platform
