// Package containertest inspects a machine independently of the container
// engine: the resources of an engine, and the host's processes of an instance.
// It is used by tests of the engine and of its users.
//
// The package must not import the engine, because it checks it.
//
// Imports: base/rootless, base/testkit, github.com/google/nftables,
// github.com/vishvananda/netlink.
package containertest
