// Package alerts tells the developers of a space what happened to their apps:
// it reads the platform's audit events and sends them through the notification
// service, as a client of it like any other.
//
// A space hears nothing unless its label says so: `cf set-label space dev
// notifications=on`. An app that crashes again and again is one message, then
// one an hour while it goes on, and one when it has been well for a while.
//
//	an app's process
//	    calm ──crash──▶ gathering ──settled──▶ troubled (told) ──well for a while──▶ calm (told)
//	                                            │    ▲
//	                                            └─crash: counted; told again once an hour
//
// Where it was in the events is kept in a file, so that nothing is left out or
// told twice when the server is killed; each message also has an idempotency
// key.
//
// It must not import the notification service: it is reached over HTTP.
//
// Imports: base/background, base/fault, platform.
package alerts
