// Package installation saves a server and restores it: its databases, its packages and droplets,
// the files of its data directory and the data of its service instances.
//
//	source: databases, blobs, files, services ─▶ archiving ─▶ server/backup ─▶ file, folder, bucket
//	file, folder, bucket ─▶ server/backup ─▶ restoring ─▶ an empty data directory, an empty PostgreSQL
//
// The server may be running while it is saved, because blobs are stored before the rows that need
// them and deleted after those (archiving.write). It is restored in a directory inside the
// data directory, whose content is moved up at the end.
//
// It does not know what a blob, a table or a service instance is: package system provides that
// (Parts).
//
// Imports: base/background, base/datadir, base/db, base/fault, base/seal,
// base/version, server/backup, server/databases, server/dbcopy, server/steps,
// github.com/prometheus/client_golang/prometheus.
package installation
