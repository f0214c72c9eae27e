// Package gitfetch fetches one commit from a git server, over smart HTTP with version 2 of git's protocol:
//
//	GET info/refs ─▶ version, final address ─▶ ls-refs ─▶ commit of the branch ─▶ fetch, depth 1 ─▶ gitpack
//
// Address, answers and pack come from strangers. Connections pass safedial; without TLS only addresses that an
// operator has listed are called. Redirects are followed for the first request only, a few times, never from https
// to http, and another host gets no credentials. Time and bytes are limited, the pack by package gitpack.
// Every error says what happened, why, and what to do, and has neither credentials nor what the server sent.
//
//	client.go    requests, redirects and credentials
//	protocol.go  lines of the protocol
//	explain.go   errors
//
// Imports: base/fault, base/safedial, platform, platform/storage/gitpack.
package gitfetch
