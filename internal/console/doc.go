// Package console is the web console: pages that show what runs, what crashed and why, and
// forms that act on it.
//
// It is a client like any other. A user logs in at the authorization server with an
// authorization code and PKCE, and the console calls the public APIs with the token of that
// user; so what a user may see and do is decided there. It has no tables except its own
// sessions, and no way around the APIs.
//
//	browser ── cookie ──▶ console ── access token ──▶ platform, logs, notifications
//	           pages,     session in the database
//	           fragments  (tokens encrypted)
//
// Pages are rendered by the server and complete without scripts. Where a page is live, the
// server renders its fragments again and sends those that changed, as server-sent events.
// A shell is an ssh session of the user: the console logs in at the ssh gateway with a
// one-time code, as cf does, and passes the terminal on over a WebSocket.
//
// Tokens are never part of a page. The content security policy allows no inline code and no
// other origin; every form has a CSRF token.
//
// It must not import another wing, a store or an engine.
//
// Imports: base/background, base/crashlines, base/fault, base/keyed,
// base/logging, base/look, base/version, base/web, github.com/coder/websocket,
// golang.org/x/crypto/ssh.
package console
