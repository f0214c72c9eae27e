// Package sshd is the ssh gateway: it lets developers into running instances
// of their apps, with the ssh of the cf client or any other.
//
// A user is named `cf:PROCESS-GUID/INDEX` and proves himself with a one-time
// code as his password. Who may come in is for an Authorizer to say; what he
// does there is done by the engine, inside the instance: shells, commands,
// file transfer, and connections to ports that only the instance sees.
//
//	life of a connection
//	    accepted ──handshake──▶ authenticating ──allowed──▶ open ──▶ ended
//	       └──too slow, too many, garbage──┴──refused──────────────────▲
//	life of a session channel
//	    new ──env, pty-req──▶ new ──shell, exec, subsystem──▶ running ──▶ exited
//	     └──────────the client closes: the process is killed──────┴────────▲
//
// A connection ends when either side closes it, when nothing passed over it
// for a while (keep-alives count), when its instance no longer exists, or with
// the server; then all its processes are killed. Who is refused learns nothing
// but that, unless he is known and only a switch or the state of the instance
// keeps him out; the operator's log says why. Guessing is slowed down by address
// and by process.
//
// It must not import engines, the store, the authorization server or a face:
// they are handed in as small interfaces.
//
// Imports: base/background, base/fault, base/logging, base/token, platform,
// platform/actions, platform/controller, platform/engine,
// golang.org/x/crypto/ssh.
package sshd
