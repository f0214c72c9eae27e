// Package frame is the format of stored log lines: frames with a checksum, which
// name the origin of lines once. All log stores use it, and share what depends on
// it: [Encoder] writes lines, [Page] finds the lines of a query by time, [Cursor]
// reads lines in the order of arrival.
//
// It must not access files or a database.
//
// Imports: platform, platform/logs.
package frame
