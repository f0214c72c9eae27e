// Package template renders a notification's template and values to a message
// body, and removes active content from HTML.
//
//	source ── scan ──▶ parse tree ── compile ──▶ program          (when it is saved: Check)
//	program + values ──▶ the path taken, and the values printed on it
//	path ──▶ skeleton: the HTML of this path with a slot for each value, sanitized once and cached
//	skeleton + values ──▶ HTML, each value escaped for the context of its slot
//
// The language is a subset of Go's template language without calls or access to
// anything but the values: see compile.go. Loops are over .Data, and limited. HTML from callers and from
// templates passes the same sanitizer (clean.go), an allow-list over
// tokens; allowed tokens are written unchanged, so that the layout is preserved.
//
// It must not do I/O.
//
// Imports: base/fault, base/pattern, notify, golang.org/x/net/html,
// golang.org/x/text/currency, golang.org/x/text/feature/plural,
// golang.org/x/text/language, golang.org/x/text/message,
// golang.org/x/text/number.
package template
