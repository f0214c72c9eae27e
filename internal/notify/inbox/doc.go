// Package inbox is the channel to the inboxes that apps show to their users, and what these need beside the
// store: tokens for one user, and streams of events.
//
//	delivery ──▶ Channel.Deliver ──▶ notify.Inboxes ──▶ Hub.Changed ─┬─▶ streams of this server
//	httpext: read, archive, delete ──▶ notify.Inboxes ─▶ Hub.Changed ┤
//	                                                                 └─▶ NOTIFY ──▶ Hub of other servers
//
// A notification is stored under the number of its message, so a message that is delivered again, after a crash,
// is not seen twice. A stream is told only that an inbox changed; what changed is then read from the store, after
// the number of the last change that the stream has. So events come in order and none is lost or repeated,
// whatever happened to the notices: a stream that was away sends the number it had (Last-Event-ID) and gets
// the rest.
//
// A stream of HTTP/1.1 has no goroutine and no buffers: its connection is taken from net/http after the head of the
// response, and a few workers write to all of them. A client that does not read is disconnected; one that
// went away is noticed by the next heartbeat.
//
// It must not import a store or an HTTP API.
//
// Imports: base/background, base/fault, notify, notify/template,
// github.com/go-jose/go-jose/v4, github.com/go-jose/go-jose/v4/jwt,
// github.com/prometheus/client_golang/prometheus.
package inbox
