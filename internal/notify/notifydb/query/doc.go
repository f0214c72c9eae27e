// Package query has what all queries of the notification service need: transactions
// whose errors are those of notify, arguments that are lists, insertions of many rows,
// and text that no database can store.
//
// It must not import a driver or another package of notifydb. Only those import it.
//
// Imports: base/db, base/fault, notify.
package query
