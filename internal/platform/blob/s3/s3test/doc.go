// Package s3test is an S3 server in memory, over TLS, whose requests can fail.
//
// Imports: nothing of this module.
package s3test
