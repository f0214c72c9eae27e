// Package controller makes what is match what is wanted: every process of a
// started app has as many instances as it should have, of its present version,
// and the routes lead to those that are ready.
//
//	store ──wanted──▶ pass ──▶ machine ──▶ rows, audit events   (one transaction)
//	                   ▲                    route table           (before a signal)
//	     Kick, timer ──┤                    log lines
//	          events ──┘                    engine: start, signal, remove
//	             ▲                                     │ in goroutines of their own
//	             ├──────── what came of it ────────────┘
//	             └──── pump: records of an instance ──▶ logs
//
// Work on one app is done by one goroutine at a time, a pass. It reads what is
// wanted, takes the events that came in, asks the state machine of each place
// (a process and an index) what follows, writes the rows, and only then acts. So
// whatever moment the server dies in, the rows tell the next one what was going
// on: an instance has a row before it is started, is STOPPING in its row before
// it is signalled, and a crash is counted and recorded in one transaction.
//
// The life of a place, drawn in full in machine.go:
//
//	absent ──▶ creating ──▶ starting ──▶ running
//	  ▲          │              │           │   exit, health check
//	  │          │ cannot       └─────┬─────┤   ──────────────▶ clearing ──▶ waiting ──▶ creating …
//	  │          ▼ be started         │     │ not wanted, replaced
//	  │        waiting                ▼     ▼
//	  └──────────────────── clearing ◀── stopping
//
// During a deployment an index has two places, for the old instance and the new
// one, which deployments.go draws: an old one goes when the new one is ready.
//
// Instances outlive the server: Stop leaves them alone, and Start adopts them.
// Their records are read on from where the logs end, so that no line is missing
// and none is there twice.
//
// A RoutePublisher beside it turns routes and destinations into the entries of
// a route table. A destination contributes the instances that are running and
// ready and have opened its port when they were started, and nothing else:
// requests never reach a process that was not meant. It reads everything once,
// when it starts. After that it is told which routes a transaction announced, and
// reads these; what nobody announced is found by a slow walk.
//
// Tasks beside it runs the tasks of apps: one-off instances, which end with their
// command, are never started again and have no routes. It shares with the
// Controller what is asked of the store and the engine, and nothing that changes.
//
// Engines, databases, logs, router and faces it must not import: it owns small
// interfaces of what it needs of them.
//
// Imports: base/background, base/fault, platform, platform/actions,
// platform/engine, platform/initproto, github.com/google/uuid.
package controller
