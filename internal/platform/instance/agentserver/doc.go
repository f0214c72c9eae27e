// Package agentserver is the agent in ingot-init: it serves agentproto to the servers of
// an installation, on the address of an instance.
//
//	Listen ──▶ waiting ──Launch──▶ running ──ended──▶ lingering ──▶ gone
//	              └──────no launch in time, or told to leave─────────▲
//
// Everything of the app arrives with the launch: its members, their environment, its
// files. The records that ingot-init writes are kept in a ring until a server has stored
// them, and are also written to standard output, for what reads the logs of containers.
// After the end the agent stays until a server has acknowledged the last record, or for
// the linger time.
//
// The agent runs as the same user as the app. So ingot-init is not dumpable (see Protect),
// no file of the agent has a name, and its ports are bound before the app runs.
//
//	server.go   listens, checks clients, dispatches by purpose
//	launch.go   receives the spec and the files; unpack.go writes them
//	ring.go     the records
//	exec.go     other processes, with their terminals (pty.go)
//	calls.go    dial, collect, stop, state
//	usage.go    what the instance uses
//	ready.go    the port for readiness
//
// It does not start processes: ingot-init does (Instance), because it reaps them. It needs
// Linux.
//
// Imports: base/background, platform/instance/agentproto,
// platform/instance/homedir, platform/instance/initproto.
package agentserver
