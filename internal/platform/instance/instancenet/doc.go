// Package instancenet decides how app instances reach the platform: which URLs
// they get in their environment, which names resolve to the platform, and which
// ports are forwarded to a proxy or an authorization server on another address.
//
// It must not import an engine: it is told the gateway of the instances' network.
//
// Imports: base/background, base/connlimit.
package instancenet
