// Package drain forwards the log lines of apps to their syslog drains, as Cloud
// Foundry does: RFC 5424, with octet counting, over TCP (syslog://) or TLS
// (syslog-tls://), or as bodies of HTTPS requests (https://, one line each, and
// https-batch://, many lines).
//
//	Source ─▶ Manager ─▶ a worker for each drain of an app:
//	                     logs.Tail from its position ─▶ messages ─▶ receiver
//	                     received lines ─▶ position, in a file
//
// The log store is the buffer: a worker reads it at its own pace, however slow or
// unreliable the receiver is, and no worker delays the app, other drains or other
// apps. Lines are dropped only if the app's share of the store was used up before
// they were sent; the app's log then reports their number.
//
// Syslog over TCP has no receipts. A line counts as received when the receiver's
// machine has acknowledged it and the connection has lasted for some seconds more;
// if the connection breaks before, the lines are sent again. So a line may be sent
// twice around a restart of the receiver, and none is lost. Over HTTPS a status
// 2xx is the receipt.
//
// The package must not know where drains are configured. URLs of drains may hold
// secrets: only scheme and host are logged.
//
// Imports: base/background, base/safedial, platform, platform/logs,
// github.com/prometheus/client_golang/prometheus, golang.org/x/sys/unix.
package drain
