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
// Each subject of the navigation is a package with its templates, on the base of package page:
//
//	page           sessions, calls to the APIs, layout, forms, live pages
//	home           the first page, search
//	apps           apps: logs, deployments, environment, shell, routes, tasks, events
//	services       service instances, marketplace, the services of an app
//	notifications  kinds, templates, sends, campaigns, mailbox, preferences
//	access         organizations and their members, users, clients
//	audit, system  audit events, the state of the server
//
// This package is their table. It must not import another wing, a store or an engine.
//
// Imports: base/prefer, console/access, console/apps, console/audit,
// console/docs, console/home, console/notifications, console/page,
// console/services, console/system.
package console
