// Package template turns a notification's template and values into a message
// body, and removes active content from HTML.
//
//	source ── scan ──▶ parse tree ── compile ──▶ program          (at save time: Check)
//	program + values ──▶ the path taken, and the values printed on it
//	path ──▶ skeleton: the HTML of this path with a slot for each value, cleaned once and kept
//	skeleton + values ──▶ HTML, each value escaped for the place its slot is in
//
// The language is a part of Go's template language that cannot loop, call, or
// reach anything but the values: see compile.go. The HTML of callers and of
// templates passes the same cleaner (clean.go), which is an allow-list over
// tokens; what it allows is written as it came, so that layout stays.
//
// It must not do I/O.
//
// Imports: base/fault, notify, golang.org/x/net/html.
package template
