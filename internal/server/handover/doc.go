// Package handover replaces the process of a running server by another one, for example of
// a newer version, without a failed request.
//
// The new process connects to DIR/handover.sock (a Unix socket for the server's user only,
// one message per packet, JSON, descriptors as SCM_RIGHTS):
//
//	new                      old
//	replace ───────────────▶          protocol, version and pid
//	        ◀─────────────── sockets  copies of the listening sockets; both have them now
//	opens its ports with them
//	yield   ───────────────▶          finishes API requests, stops all but the routing to apps;
//	                                  new API requests wait, apps are served as before
//	        ◀─────────────── yielded  the lock of the data directory; both hold it
//	migrates, adopts the apps, starts
//	accepts connections
//	ready   ───────────────▶          stops accepting, passes waiting API requests on to
//	                                  DIR/forward.sock, releases the lock
//	        ◀─────────────── released
//	                                  finishes its connections, exits
//
// If the new process dies or gives up before it is ready, the old one starts its stopped
// parts again. If the old one dies, the lock is free or already with the new one, which
// continues. The connection is the witness: it ends when one of the two does.
//
// The request reload asks the server to start its own successor, and is answered with done
// or error when that has succeeded or failed.
//
// Imports: base/background, server/sockets, golang.org/x/sys/unix.
package handover
