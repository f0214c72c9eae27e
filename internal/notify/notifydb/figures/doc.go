// Package figures stores numbers of deliveries for package notifydb, in its transactions: by client, kind, channel,
// template version and domain, for each hour of two days and each day of ninety.
//
//	count.go   adds the outcomes of a transaction
//	series.go  ids of what is counted by, which are bounded for each client
//	query.go   reads groups and totals
//	purge.go   makes days of old hours, and deletes old days
//
// Only package notifydb imports it.
//
// Imports: base/db, notify, notify/notifydb/query.
package figures
