// Package blobtest is the specification of blob.Store: every store passes it.
//
// Imports: base/fault, base/testkit, platform/storage/blob.
package blobtest
