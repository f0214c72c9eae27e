// Package forward makes database servers reachable for apps in containers: it listens on an address of
// this machine in their network, limits the connections of each app, starts a server that does not
// run, and passes bytes on.
//
// The package must not import the broker, and knows nothing of service instances.
//
// Imports: base/background, base/clock, base/connlimit.
package forward
