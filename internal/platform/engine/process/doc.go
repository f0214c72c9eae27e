// Package process is the engine for machines without privileges: instances are
// plain processes of this machine. It keeps nothing apart and says so.
//
//		server ──fork──▶ ingot-init (own session) ──▶ members
//		   └─ dies               └─ goes on; the next server knows it again by
//		                            pid, start time and boot
//
//	  - An instance has a directory of its own as its home; the rest of the
//	    machine's files are there too.
//	  - Instances share the machine's ports. A port that members learn through
//	    {{port:N}} gets a free number for each instance; a fixed one can be had
//	    by one instance only.
//	  - The number of open files is bounded. Memory, disk, processors and the
//	    number of processes are not.
//	  - Members run as the user of the initproto.Spec if the server is root, else
//	    as the server's.
//	  - Members have a variable that leads into the instance's directory, HOME if
//	    no other: by it Remove finds what is left when ingot-init was killed.
//
// It needs Linux: it looks at processes through /proc.
//
// It must not import another engine, or anything of the platform but the seam.
//
// Imports: base/background, base/fault, platform/engine, platform/engine/local,
// platform/initproto, golang.org/x/sys/unix.
package process
