// Package network connects the instances of the container engine: a bridge with a subnet, an
// address and a pair of interfaces for each instance, and the firewall that says what they may
// connect to.
//
//	bridge, addresses ─▶ Admit: what an instance may reach ─▶ Connect
//	Allow, Enforce    ─▶ firewall tables ─▶ Protect: restored when another program changes them
//
// Each firewall table has a copy that other programs cannot remove. A process that outlives the
// server holds it, as the instances do.
//
// The package must not import the engine, or parts of the platform that use engines.
//
// Imports: base/background, base/filelock, base/pattern, base/rootless,
// platform, platform/engine, platform/engine/local,
// platform/instance/initproto, github.com/google/nftables,
// github.com/google/nftables/binaryutil, github.com/google/nftables/expr,
// github.com/mdlayher/netlink, github.com/vishvananda/netlink,
// golang.org/x/sys/unix.
package network
