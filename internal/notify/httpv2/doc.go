// Package httpv2 is version 2 of the notification service's HTTP API: what a
// client reaches that sends X-NOTIFICATIONS-VERSION: 2. Senders have campaign
// types, and campaigns of a type go to users, spaces, organizations and
// addresses.
//
// Everything belongs to the client of the token; what belongs to another is not
// found.
//
// It must not import a store, delivery, mail or the other faces.
//
// Imports: base/fault, base/token, base/web, notify, notify/template,
// github.com/google/uuid.
package httpv2
