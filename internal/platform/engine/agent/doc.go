// Package agent is the server's side of the protocol with agents (agentproto): engines that
// run instances on other machines reach into them with it. It is not an engine itself.
//
//	Authority   the installation's certificate authority, which agents obey
//	Dialer      connects to agents as one server
//	Client      one instance's agent
//
// An agent runs beside the app, as the same user: what it says is limited and believed for
// its own instance only.
//
// The package must not import the engines that use it.
//
// Imports: base/background, base/fault, platform/engine,
// platform/instance/agentproto, platform/instance/initproto.
package agent
