// Package cgroup owns the control groups of this machine, version 2 or 1: those of app instances, which
// the container engine's runtime creates, and those of the servers that Ingot runs for services. It
// finds the hierarchies, and creates, limits, reads and removes groups; nothing else does.
//
//	ingot.slice                     with systemd and version 2; otherwise all are at the top
//	├── ingot-<hash>                instances of a data directory
//	│   └── ID                      one instance: its limits
//	│       └── init, member-N, ssh only of an instance with sidecars: see engine/container
//	└── ingot-<hash>-services       database servers of a data directory: their weight together
//	    └── ID                      one server: its limits
//
// With version 2 a group either has processes or passes controllers on to groups below, never both.
//
// Creating groups needs root, or a group that was delegated to the user (Find).
//
// Imports: base/background, base/mounts, base/rootless.
package cgroup
