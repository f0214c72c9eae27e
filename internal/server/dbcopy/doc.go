// Package dbcopy copies the tables of a server to another database: from SQLite or
// PostgreSQL to an empty PostgreSQL. Dump and Load do the same by way of a file.
//
//	snapshot of the source ─▶ check types ─▶ insert ─▶ read back, compare ─▶ commit
//
// The rows are read from one snapshot and written in one transaction, so that the
// target has everything or nothing. Each table is read back in that transaction and
// compared: the number of rows, and a checksum that does not depend on their order.
// The source is not changed, not even migrated: the target gets the source's version
// of the tables first and is migrated afterwards.
//
// It knows no tables. What a service has is found in the schema that its migrations
// create. Copy does not know whether a server uses the databases: CopyServer and
// MigrateServer, which are commands of the program, make sure that none does.
//
// Imports: base/datadir, base/db, base/seal, base/version, server/cluster,
// server/databases, server/steps.
package dbcopy
