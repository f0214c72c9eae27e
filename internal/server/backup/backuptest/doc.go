// Package backuptest is the test suite for implementations of backup.Objects.
//
// Imports: server/backup.
package backuptest
