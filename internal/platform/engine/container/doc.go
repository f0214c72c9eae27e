// Package container is the engine that runs instances as Linux containers,
// through runc. Every instance has its own process, mount, network, IPC, UTS,
// cgroup and user namespaces.
//
//		server ──runc create──▶ ingot-init (PID 1, root of its own user namespace)
//		   │ ──veth──▶ its network      └──▶ members (uid 2000, no capabilities)
//		   └ dies                            go on; the next server lists them
//
//	  - The root file system is made of the host's /usr, read-only, and of a few
//	    directories of our own. Nothing else of the host is there. Writable are
//	    the home directory, /tmp and /var/tmp, on a disk of the instance's own
//	    whose size is its limit.
//	  - Archives with a key are unpacked once and shared as lower layers of
//	    overlays, with the owner mapped to that of each instance.
//	  - Root inside is nobody outside: each instance has its own range of 65536
//	    user ids, chosen at random above 2^30.
//	  - Each engine has its own bridge, subnet and firewall table. Instances are
//	    reached from the host; they reach nothing but what Allow names, unless
//	    Options.Egress opens the way out.
//
// Names of everything outside of Options.Root begin with ingot- or ig and hold
// a hash of that path, so that servers do not meet and leftovers can be told:
//
//	ROOT/instances/<id>/   package local's directory, and disk.img
//	ROOT/layers/<hash>/    unpacked archives
//	/run/ingot-<hash>/     root file system, runc's state, bundles, mounts
//	ig<hash>, ig<hash>-N   the bridge and the hosts' ends of its cables
//	ingot-<hash>           the firewall table, the parent of all cgroups
//
// The life of an instance, and what a server that comes back does with what it
// finds in each step:
//
//	directory made ─▶ disk, layers mounted ─▶ created ─▶ cabled ─▶ committed ─▶ released
//	└────────────────────── taken down ──────────────────────────────────────┘ └ adopted
//
// It must not import another engine, or anything of the platform but the seam.
//
// Imports: base/background, base/safedial, platform/engine,
// platform/engine/local, platform/initproto, github.com/creack/pty,
// github.com/google/nftables, github.com/google/nftables/binaryutil,
// github.com/google/nftables/expr,
// github.com/opencontainers/runtime-spec/specs-go,
// github.com/vishvananda/netlink, golang.org/x/sys/unix, golang.org/x/term.
package container
