// Package httpv2 serves version 2 of the notification service's HTTP API: requests
// with X-NOTIFICATIONS-VERSION: 2. Senders have campaign types, and a campaign of
// a type goes to users, spaces, organizations or addresses.
//
// Every resource belongs to the client of the token; to other clients it does not
// exist.
//
// It must not import a store, delivery, mail or the other HTTP APIs.
//
// Imports: base/fault, base/token, base/tracing, base/web, notify,
// notify/actions, notify/template, github.com/google/uuid.
package httpv2
