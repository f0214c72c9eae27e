// Package report answers what operators ask first about a server: its version, parts, database,
// disk, certificates and last backup, and what waits in its queues.
//
// It only reads. What cannot be read, for example because the database does not answer, is left
// out.
//
// Imports: base/db, base/version, base/web, server/cluster, server/diskspace,
// server/health, server/installation, server/pressure,
// github.com/prometheus/client_golang/prometheus.
package report
