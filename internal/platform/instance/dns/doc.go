// Package dns is the name server for instances. It answers queries for names of
// the platform with the address at which instances reach it, those of internal
// routes with the addresses of instances, and forwards all others to the
// machine's name servers:
//
//	instance ──▶ Server ── a platform name ──▶ the platform's address
//	               ├────── an internal name ─▶ healthy instances
//	               └────── any other ────────▶ the machine's name servers
//
// Imports: base/background, base/connlimit, platform,
// golang.org/x/net/dns/dnsmessage.
package dns
