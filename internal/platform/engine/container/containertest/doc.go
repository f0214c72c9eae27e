// Package containertest looks at a machine from outside of the container
// engine: what belongs to an engine there, and which processes an instance has
// as the host counts them. Tests of the engine use it, and tests of those who
// use the engine.
//
// It must not import the engine, for then it would believe what it is to check.
//
// Imports: github.com/google/nftables, github.com/vishvananda/netlink.
package containertest
