// Package process is the engine for machines without privileges: instances are
// plain processes of this machine. It isolates nothing and reports that.
//
//		server ──fork──▶ ingot-init (own session) ──▶ members
//		   └─ dies               └─ keeps running; the next server recognizes it by
//		                            pid, start time and boot
//
//	  - An instance has its own directory as its home; the rest of the
//	    machine's files are visible too.
//	  - Instances share the machine's ports. A port that members learn through
//	    {{port:N}} gets a free number for each instance; a fixed one can be used
//	    by one instance only.
//	  - The number of open files is limited. Memory, disk, processors and the
//	    number of processes are not.
//	  - Members run as the user of the initproto.Spec if the server is root, else
//	    as the server's.
//	  - Members have a variable with a path in the instance's directory, at least
//	    HOME: by it Remove finds the processes left when ingot-init was killed.
//
// It needs Linux, because it finds processes through /proc.
//
// The package must not import another engine, or parts of the platform that use
// engines.
//
// Imports: base/background, base/fault, base/keyed, base/mounts,
// platform/engine, platform/engine/local, platform/instance/homedir,
// platform/instance/initproto, golang.org/x/sys/unix.
package process
