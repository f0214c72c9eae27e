// Package systemd talks to the service manager that runs the server, by the protocols of
// sd_listen_fds(3) and sd_notify(3): it takes over the sockets that systemd passes, says
// when the server is ready, which process it is and that it is alive, and stores sockets there,
// so that they survive a restart. Without systemd it does nothing.
//
// Imports: server/sockets, golang.org/x/sys/unix.
package systemd
