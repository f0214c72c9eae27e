// Package containertest looks at a machine from outside of the container
// engine: what belongs to an engine there, and which processes an instance has
// as the host counts them. Tests of the engine use it, and tests of those who
// use the engine.
//
// It may import the standard library and what speaks to the kernel's network
// (netlink, nftables); the engine itself it must not, for then it would believe
// what it is to check.
package containertest
