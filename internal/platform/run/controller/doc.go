// Package controller is the loop that starts, replaces and stops app instances, until
// every process of a started app has the desired number of instances of its current
// version and the routes lead to those that are ready; it handles no HTTP requests.
// Tasks runs tasks; package routing fills the router's table.
//
//	store ──wanted──▶ pass ──▶ machine ──▶ rows, audit events   (one transaction)
//	                   ▲                    route table           (before a signal)
//	     Kick, timer ──┤                    log lines
//	          events ──┘                    engine: start, signal, remove
//	             ▲                                     │ in goroutines
//	             ├──────── results ────────────────────┘
//	             └──── pump: records of an instance ──▶ logs
//
// One goroutine at a time works on an app, in a pass. A pass reads the desired
// state, takes the queued events, asks the state machine of each instance slot
// (a process and an index) for the actions that follow, writes the rows, and
// only then acts. So at whatever moment the server dies, the rows tell the next
// one what was in progress: an instance has a row before it is started, its row
// says STOPPING before it is signalled, and a crash is counted and recorded in
// one transaction.
//
// The states of a slot, drawn in full in machine.go:
//
//	absent ──▶ creating ──▶ starting ──▶ running
//	  ▲          │              │           │   exit, health check
//	  │          │ cannot       └─────┬─────┤   ──────────────▶ clearing ──▶ waiting ──▶ creating …
//	  │          ▼ be started         │     │ not wanted, replaced
//	  │        waiting                ▼     ▼
//	  └──────────────────── clearing ◀── stopping
//
// During a deployment there are two web processes, the old one and the new one: one
// shrinks as the other grows, which deployments.go draws.
//
// Instances outlive the server: Stop leaves them running, and Start adopts them.
// Their records are read on from where the logs end, so that no line is missing
// or duplicated.
//
// Tasks runs the tasks of apps: one-off instances, which end with their command,
// are never restarted and have no routes. Tasks finds them in the store when it
// is kicked and from time to time, adopts those that run after a restart, reads
// their records into the logs, and writes the result. It shares the interfaces
// to store and engine with the Controller, but no mutable state.
//
// The package must not import engines, databases, logs, router or HTTP APIs: it
// defines small interfaces for what it needs from them.
//
// Imports: base/background, base/clock, base/db, base/fault, platform,
// platform/actions, platform/engine, platform/instance/identity,
// platform/instance/initproto, platform/run/controller/routing,
// platform/run/controller/usage, github.com/google/uuid.
package controller
