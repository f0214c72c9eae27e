// Package services creates, updates and deletes service instances and bindings
// through service brokers, the bundled one and others. It stores each operation
// with a job, calls the broker, and polls it until the operation is finished,
// across restarts of the server.
//
// The rows of an operation (an instance "create in progress", and a job) are
// stored in one transaction before the broker is called. A worker takes the job
// with a lease, performs one step (a call or a poll), and stores the result
// together with the next step. If the worker dies, its lease expires and the
// step is repeated: calls of the Open Service Broker API are idempotent.
//
//	        ┌──────────done─────────▶ succeeded ◀─────────────┐
//	        │                                                 │
//	call ───┼─accepted─▶ poll ⟲ ──done──▶ fetch (bindings) ───┤
//	   ⟲    │              │ refused, too long     │ refused   │ gone (delete)
//	  busy  └──refused──▶ failed ◀─────────────────┘           │
//	           unknown      │                                  │
//	                        └──▶ cleanup ⟲ until the broker has nothing left
//
// A create whose outcome is unknown (a timeout, garbage, a poll that took too
// long) fails, and a cleanup removes what the broker may have made.
//
// A rotation (rotate.go) gives a binding new credentials under another id of the
// broker. The job that makes them is followed by one that tells the app, waits until
// nothing uses the old credentials and the grace period is over, and unbinds them:
//
//	rotate: call … fetch ──▶ new credentials stored
//	revoke: tell ──▶ wait ⟲ used ──▶ grace ──▶ call, poll ⟲ until the broker has nothing left
//
// While it waits it is not polled: what stops an instance makes it due (actions.CredentialsReleased).
//
// Package osb is the client of brokers, brokertest a broker for tests. The
// package must not import the API or implementations of the store.
//
// Imports: base/background, base/clock, base/db, base/fault, base/schema,
// base/uaaclient, platform, platform/actions, platform/services/osb,
// github.com/google/uuid.
package services
