// Package rootless lets an ordinary user have containers: it makes namespaces in which the server is root,
// see decision 53.
//
//	ingot up ── holder? ─no─▶ systemd-run --user --scope ─▶ make ─┬─▶ wait ─▶ setup ─▶ ingot-init --hold
//	   │                                                         ├─▶ newuidmap, newgidmap
//	   │                                                         └─▶ pasta or slirp4netns
//	   └─ exec: systemd-run --scope, nsenter ─▶ ingot up, root of the user's namespaces
//
// The holder is a process that does nothing but keep a user, a mount and a network namespace. Instances
// live in them and in its control group, so they outlive the server; the next one joins the same
// namespaces and adopts them. The server itself stays in the network of the machine: its ports, and the
// databases and mail servers that it connects to, are those of the user. Only what concerns instances is
// done in the holder's network (base/rootless.InNet).
//
//	/run                    a file system of the mount namespace, with what else is in /run
//	/run/ingot-data-<hash>  the containers of the data directory
//
// The package must not import an engine: it knows nothing of what runs in the namespaces.
//
// Imports: base/background, base/distro, base/filelock, base/rootless,
// golang.org/x/sys/unix.
package rootless
