// Package s3test is an S3 server in memory, over TLS, whose requests can fail.
//
// Imports: base/testkit, github.com/johannesboyne/gofakes3,
// github.com/johannesboyne/gofakes3/backend/s3mem.
package s3test
