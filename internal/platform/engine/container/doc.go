// Package container is the engine that runs instances as Linux containers,
// through runc. Every instance has its own process, mount, network, IPC, UTS,
// cgroup and user namespaces.
//
//		server ──runc create──▶ ingot-init (PID 1, root of its own user namespace)
//		   │ ──veth──▶ its network      └──▶ members (uid 2000, no capabilities)
//		   └ dies                            keep running; the next server lists them
//
//	  - The root file system is made of the host's /usr, read-only, and a few
//	    additional directories. Nothing else of the host is visible. Writable are
//	    the home directory, /tmp and /var/tmp, on the instance's own disk,
//	    whose size is its limit.
//	  - Archives with a key are unpacked once and shared as lower layers of
//	    overlays, with the owner mapped to that of each instance.
//	  - Root inside has no rights outside: each instance has its own range of
//	    65536 user ids, chosen at random above 2^30.
//	  - Each engine has its own network (package network). The host can connect to
//	    instances; they can connect only to what Allow names, to their Spec.Reach,
//	    and to what the rules of Enforce allow.
//
// Names of everything outside of Options.Root start with ingot- or ig and contain
// a hash of that path, so that servers do not collide and leftovers can be found:
//
//	ROOT/instances/<id>/   package local's directory, and disk.img
//	ROOT/layers/<hash>/    unpacked archives
//	/run/ingot-<hash>/     root file system (its own mount: /run may have noexec), runc's
//	                       state, bundles, mounts
//	ig<hash>, ig<hash>-N   the bridge and the host's ends of its veth pairs
//	ingot-<hash>           the firewall tables, the parent of all cgroups (in ingot.slice
//	                       where systemd has started it)
//	ingot-<hash>-held-N    copies of these tables, which other programs cannot remove
//
// Engines share only the forwarding of the machine, with its marker /run/ingot-forwarding-<namespace>:
// the first one with a way out enables it, and it is disabled when the last engine is gone.
//
// The steps of a start, and what a restarted server does with an instance in each
// of them:
//
//	directory ─▶ disk, layers mounted ─▶ created ─▶ connected ─▶ committed ─▶ released
//	└────────────────────── removed ──────────────────────────────────────┘ └ adopted
//
// The package must not import another engine, or parts of the platform that use
// engines.
//
// Imports: base/background, base/cgroup, base/distro, base/fault,
// base/filelock, base/keyed, base/loopdisk, base/mounts, base/pattern,
// base/rootless, platform/engine, platform/engine/container/network,
// platform/engine/local, platform/instance/homedir,
// platform/instance/initproto, platform/storage/archive, github.com/creack/pty,
// github.com/opencontainers/runtime-spec/specs-go, golang.org/x/sys/unix,
// golang.org/x/term.
package container
