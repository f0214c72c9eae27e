// Package cgroup limits the memory, processes and processor time of the servers that
// Ingot runs for services, with the control groups of the kernel, version 1 or 2.
//
//	/ingot-<hash>-services      all servers of a data directory: their weight together
//	/ingot-<hash>-services/ID   one server: its limits
//
// With systemd and version 2, both are below ingot.slice, beside the groups of apps.
//
// Creating groups needs root. The container engine only asks where groups belong: the runtime
// creates its own.
//
// Imports: base/rootless.
package cgroup
