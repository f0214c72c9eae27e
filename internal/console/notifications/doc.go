// Package notifications has the console's pages of the notification service: kinds, templates,
// sends, campaigns, the mailbox, recipients, suppressions, and the preferences of the user.
//
// It must not import another part of the console.
//
// Imports: base/cfapi, base/fault, base/pattern, base/prefer, base/web,
// console/chart, console/page.
package notifications
