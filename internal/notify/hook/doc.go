// Package hook is the channels whose receivers are addresses of clients: webhooks, which get each message as JSON, and
// rooms of chats.
//
//	delivery ──▶ Channel.Deliver ──▶ outbound.Queue ─┬─ client ──▶ failover.Breaker ──▶ outbound.Client
//	                                                 └─ client ──▶ …
//
// Each client has room for some messages and makes a few calls at a time; what has no room comes back when it
// is likely to have it, which is no attempt. A receiver that does not answer, or asks to be left alone, gets no
// calls for a while; then one message tries it. So one client's receiver, however slow, takes nothing from others.
//
// It must not import a store, an HTTP API or delivery.
//
// Imports: base/background, base/pattern, notify, notify/failover,
// notify/outbound, notify/template.
package hook
