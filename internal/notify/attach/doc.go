// Package attach decides which files may be attached to mail, and prepares the attachments of a send.
//
// Nothing is ever unpacked: what a file is follows from its first bytes, and from texts that occur in it. A file that
// would grow when it is unpacked costs what its size does.
//
//	content ──▶ Sniff ──▶ kind, or why it is refused ──▶ notify.Files
//	name, declared type, kind ──▶ Check ──▶ notify.Attachment, or why not
//
// Programs and scripts, archives, documents with macros and pages that browsers run are refused. Any other content may
// be attached if its name and its declared type do not contradict it.
//
// It must not import an HTTP API, a store or mail.
//
// Imports: base/fault, notify, golang.org/x/text/unicode/norm.
package attach
