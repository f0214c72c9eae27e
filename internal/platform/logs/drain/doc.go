// Package drain sends the lines of apps on to syslog servers of their owners, as
// Cloud Foundry's drains do: RFC 5424, with octet counting, over TCP (syslog://)
// or TLS (syslog-tls://), or as bodies of HTTPS requests (https://, one a line,
// https-batch://, many at once).
//
//	Source ─▶ Manager ─▶ a worker for each drain of an app:
//	                     logs.Tail from its position ─▶ messages ─▶ receiver
//	                     what was taken ─▶ position, in a file
//
// The log store is the buffer: a worker reads it at its own pace, however slow
// the receiver is and however often it goes away, and no worker is in the way of
// the app, of other drains or of other apps. Lines are given up only when the
// app's share of the store was used up before they were sent; then their number
// is told in the app's log.
//
// Syslog over TCP has no receipts. A line counts as taken when the receiver's
// machine has acknowledged it and the connection has lasted for some seconds
// more; when it breaks before, those lines are sent again. So a line may come
// twice around a restart of the receiver, and none is lost. Over HTTPS a status
// 2xx is the receipt.
//
// It must not know where drains are configured. Addresses of drains hold
// secrets: they are never logged beyond scheme and host.
//
// Imports: base/background, base/safedial, platform, platform/logs,
// github.com/prometheus/client_golang/prometheus, golang.org/x/sys/unix.
package drain
