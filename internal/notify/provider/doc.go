// Package provider is the channels that deliver by HTTP services which clients or administrators declare: text
// messages by SMS. Devices delivers to devices in the same way, for package push.
//
//	delivery ──▶ Channel.Deliver ── client ──▶ room for it? ──▶ a few messages at a time
//	                                                               │
//	             the client's providers, or the shared ones: failover.Order, failover.Breaker
//	                                                               ▼
//	             Compiled.Request ──▶ outbound.Client ──▶ Compiled.judge ─┬─ accepted, or refused for good
//	                                                                      └─ the next provider
//
// A definition is data, not a program: texts with placeholders, whose values are escaped for where they are.
//
// It must not import a store, an HTTP API or delivery.
//
// Imports: base/background, base/fault, base/pattern, notify, notify/failover,
// notify/outbound, notify/template, github.com/go-jose/go-jose/v4,
// github.com/go-jose/go-jose/v4/jwt, golang.org/x/time/rate.
package provider
