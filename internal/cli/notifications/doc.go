// Package notifications has the command notifications, a client of the notification
// service: register kinds, send, templates, delivery status and preferences.
//
// It must not import other packages of commands.
//
// Imports: base/cfapi, base/digits, base/pattern, cli/client, cli/config,
// cli/core, cli/term.
package notifications
