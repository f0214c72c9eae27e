// Package backuptest is the test suite for implementations of backup.Objects.
//
// Imports: base/testkit, server/backup.
package backuptest
