// Package alerts notifies the developers of a space of events of their apps: it
// reads the platform's audit events and sends messages through the notification
// service, as a client like any other.
//
// Notifications of a space are off unless its label enables them: `cf set-label
// space dev notifications=on`. An app that crashes repeatedly causes one message,
// then one an hour while it keeps crashing, and one when it has recovered.
//
//	an app
//	    calm ──crash──▶ collecting ──Settle──▶ crashing (sent) ──up for Well──▶ calm (sent)
//	                                            │    ▲
//	                                            └─crash: counted; sent again after Quiet
//
// The store marks the events that were handled, so no event is left out, however
// late its transaction commits. The crashes that were counted are kept in a file, so
// that none counts twice when the server is killed; each message also has an
// idempotency key. What was sent about an app is an audit event of it. A space that
// causes many messages, or whose messages fail, does not delay those of other spaces.
//
// The package must not import the notification service: it is called over HTTP.
//
// Imports: base/background, base/crashlines, base/datadir, base/fault,
// platform, github.com/google/uuid.
package alerts
