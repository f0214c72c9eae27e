// Package sshd is the ssh gateway: it gives developers access to running
// instances of their apps, with the cf CLI or any other ssh client.
//
// The user name is `cf:PROCESS-GUID/INDEX` and the password a one-time code. An
// Authorizer decides about access; the engine runs everything inside the
// instance: shells, commands, file transfer, and connections to ports that only
// the instance can reach.
//
// The user `git` has the same password, and gets git push and git fetch instead: no instance,
// shell, command or forwarding.
//
//	states of a connection
//	    accepted ──handshake──▶ authenticating ──allowed──▶ open ──▶ closed
//	       └──too slow, too many, garbage──┴──refused──────────────────▲
//	states of a session channel
//	    new ──env, pty-req──▶ new ──shell, exec, subsystem──▶ running ──▶ exited
//	     └──────────the client closes: the process is killed──────┴────────▲
//
// A connection is closed when either side closes it, when it has been idle for a
// while (keep-alives count as activity), when its instance no longer exists, or
// with the server; then all its processes are killed. A refused client learns no
// reason, unless it is authenticated and only the ssh setting or the state of
// the instance is the reason; the operator's log has the reason. Guessing is
// slowed down by address and by process.
//
// The package must not import implementations of engines and of the store, the
// authorization server or an HTTP API: they are passed in as small interfaces.
//
// Imports: base/background, base/clock, base/fault, base/limit, base/logging,
// base/token, platform, platform/actions, platform/engine,
// platform/run/controller, golang.org/x/crypto/ssh, golang.org/x/sys/unix.
package sshd
