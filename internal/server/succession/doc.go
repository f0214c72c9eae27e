// Package succession runs a server that another process can replace without failing a request:
// it does what package handover asks for, tells systemd about it, and continues with a new server
// in this process if the next one does not start.
//
// It does not know what a server consists of, see Server.
//
// Imports: base/background, base/datadir, base/version, server/handover,
// server/sockets, server/systemd.
package succession
