package container

import (
	"log/slog"
	"net/netip"
)

// Options configure an engine.
type Options struct {
	// Root is the directory of instances and layers. One server uses it at a
	// time.
	Root string
	// Init is the ingot-init program, statically linked; see local.InitPath if
	// empty.
	Init string
	// SFTP is the ingot-sftp program, statically linked; instances have it as SFTPInside.
	// Empty means that they have none.
	SFTP string
	// Runc is the OCI runtime; runc from PATH if empty.
	Runc string
	// Egress lets instances connect to other machines where rules allow it (Engine.Enforce),
	// and gives them the host's name servers. It enables the host's IPv4 forwarding.
	Egress bool
	// Allow is what instances may always connect to; see Engine.Allow.
	Allow []Endpoint
	// LayerSpace limits the size of unpacked archives that no instance uses, in bytes; 4
	// GiB if zero.
	LayerSpace int64
	// Overcommit is the ratio of the sum of all memory limits to the machine's memory;
	// local.DefaultOvercommit if zero.
	Overcommit int
	// Leaving means that the engine is opened to remove its instances: one that cannot be adopted
	// is removed, too, and a machine on which none could start is no error.
	Leaving bool
	// NotRoot is why an ordinary user who started the server cannot have containers.
	NotRoot error
	Log     *slog.Logger
}

// SFTPInside is the path of the ingot-sftp program in instances.
const SFTPInside = "/.ingot-sftp"

// BindingsInside is the directory of service binding files. In an instance it is a link to
// BindingsTarget below its home.
const (
	BindingsInside = "/etc/cf-service-bindings"
	BindingsTarget = ".cf-service-bindings"
)

// Endpoint is a TCP address, of this machine or another, that instances may
// connect to.
type Endpoint = netip.AddrPort
