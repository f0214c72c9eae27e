// Package cleanup removes what nothing refers to any more: blobs without a row
// in the store, unpacked droplets that no app uses, the logs of apps that were
// deleted, and jobs that finished long ago. It runs periodically, and at once when the disk is low.
//
// A blob may be written before its row. So a blob is removed only if it is older
// than every build that is still running.
//
// It must not import an engine or a store; it gets them as interfaces.
//
// Imports: base/background, base/db, base/fault, platform, platform/engine,
// platform/logs, platform/run/controller, platform/storage/blob.
package cleanup
