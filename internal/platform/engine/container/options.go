package container

import (
	"log/slog"
	"net/netip"
)

// Options say where an engine keeps its things and what it allows.
type Options struct {
	// Root is the directory of instances and layers. One server uses it at a
	// time.
	Root string
	// Init is the ingot-init program, statically linked; see local.InitPath if
	// empty.
	Init string
	// SFTP is the ingot-sftp program, statically linked; instances have it as
	// SFTPInside. Empty means that they have none.
	SFTP string
	// Runc is the OCI runtime; runc from PATH if empty.
	Runc string
	// Egress lets instances connect to the world outside of this machine, and
	// gives them its name servers. It turns on the host's IPv4 forwarding.
	Egress bool
	// Allow is what instances may connect to in any case; see Engine.Allow.
	Allow []Endpoint
	// LayerSpace bounds the bytes of unpacked archives that no instance uses;
	// 4 GiB if zero.
	LayerSpace int64
	// Overcommit is how many times the machine's memory the limits of all
	// instances may add up to; local.DefaultOvercommit if zero.
	Overcommit int
	Log        *slog.Logger
}

// SFTPInside is where instances have the ingot-sftp program.
const SFTPInside = "/.ingot-sftp"

// BindingsInside is where programs look for service bindings in files. In an
// instance it leads to BindingsTarget below its home.
const (
	BindingsInside = "/etc/cf-service-bindings"
	BindingsTarget = ".cf-service-bindings"
)

// Endpoint is a TCP address, of this machine or another, that instances may
// connect to.
type Endpoint = netip.AddrPort
