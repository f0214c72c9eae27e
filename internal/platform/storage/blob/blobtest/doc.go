// Package blobtest is the specification of blob.Store: every store passes it.
//
// Imports: base/fault, platform/storage/blob.
package blobtest
