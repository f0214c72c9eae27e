// Package agentproto is the protocol between a server and ingot-init --agent, the first
// process of an instance that runs on another machine.
//
//	server ── TLS 1.3, both sides with certificates ──▶ agent
//	       ── Hello: versions, purpose, instance ─────▶
//	       ◀─ Hello: version, or Error ───────────────
//	       ◀─ frames of the purpose ─────────────────▶
//
// There is one connection per purpose (launch, records, exec, …). A frame is a type, the
// length of the payload and the payload. Both sides speak Version and the version before
// it, so that servers can be updated one after another while instances keep running.
//
// The agent proves that it has the key derived from its instance's seed; a server proves
// itself with a certificate of the installation's authority. Neither side trusts what the
// other sends: every length is limited, and memory is allocated for bytes that arrived,
// not for bytes that were announced.
//
// It is linked into ingot-init and therefore uses the standard library only.
//
// Imports: the standard library only.
package agentproto
