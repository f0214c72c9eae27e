// Package sockets keeps the listening sockets of a server, so that they outlive its
// process: a supervisor or the previous process of the server passes them on, and
// connections wait in the kernel's queue instead of being refused.
//
//	systemd: a .socket unit, or the store of descriptors ─┐
//	previous process, see package handover ───────────────┴─▶ Set ─▶ Listen: inherited, or opened
//
// Inherited listeners accept nothing before Set.Open is called: until then the previous
// process serves the connections, or they wait.
//
// Imports: golang.org/x/sys/unix.
package sockets
