// Package services makes service instances and bindings what users asked for:
// it writes down the wish with a job, asks the broker, and goes on asking until
// it is done, however often the server is killed in between.
//
// The rows of a wish (an instance "create in progress", and a job) are stored
// in one transaction before any broker is called. A worker takes the job with a
// lease, makes one step (a call, or a poll), and writes the result down together
// with what comes next; a worker that dies loses its lease, and the step is made
// again. The calls of the Open Service Broker API can be repeated.
//
//	        ┌──────────done─────────▶ succeeded ◀─────────────┐
//	        │                                                 │
//	call ───┼─accepted─▶ poll ⟲ ──done──▶ fetch (bindings) ───┤
//	   ⟲    │              │ refused, too long     │ refused   │ gone (delete)
//	  busy  └──refused──▶ failed ◀─────────────────┘           │
//	           unknown      │                                  │
//	                        └──▶ cleanup ⟲ until the broker has nothing left
//
// A create whose outcome nobody knows (a timeout, garbage, a poll that took too
// long) fails, and a cleanup removes what the broker may have made.
//
// Folder osb is the client of brokers, brokertest a broker for tests. It must
// not import faces, stores or adapters.
//
// Imports: base/background, base/fault, platform, platform/actions,
// platform/services/osb, github.com/google/uuid,
// github.com/santhosh-tekuri/jsonschema/v6, golang.org/x/text/language,
// golang.org/x/text/message.
package services
