// Package push is the channel that sends to the browsers that users have subscribed, by Web Push and without any
// provider: each browser has a push service, which keeps the message until the browser takes it. To devices that users
// have registered it sends by providers.
//
//	delivery ──▶ Channel.Deliver ─▶ outbound.Queue ─┬─▶ the user's browsers ─▶ Encrypt ─▶ outbound.Client ─▶ push service
//	                                                │                          Keys: who sends it
//	                                                └─▶ the user's devices ─▶ provider.Devices
//
// RFC 8030 is how push services take messages, RFC 8291 how messages are encrypted for the browser, so that its push
// service cannot read them, and RFC 8292 (VAPID) how it knows who sends them.
//
// It must not import a store, an HTTP API or delivery.
//
// Imports: base/background, notify, notify/failover, notify/outbound,
// notify/provider, notify/template, github.com/go-jose/go-jose/v4,
// github.com/go-jose/go-jose/v4/jwt, github.com/hashicorp/golang-lru/v2.
package push
