// Package dns is the name server of instances. It answers names of the
// platform itself with the address at which instances reach it, and asks the
// machine's own name servers for all others:
//
//	instance ──▶ Server ── a name of ours? ──▶ the platform's address
//	                └───── any other ────────▶ the machine's name servers
//
// Imports: base/background, base/connlimit, platform,
// golang.org/x/net/dns/dnsmessage.
package dns
