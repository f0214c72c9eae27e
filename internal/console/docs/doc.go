// Package docs serves the documentation that is compiled into the program at /docs: an index by purpose, each
// document, their pictures, and a search.
//
// These pages need no login, so anyone can request them. A document is rendered once and kept compressed; of
// searches only a few run at once, and an address may make only so many.
//
// Imports: base/fault, base/handbook, base/limit, base/web, console/page.
package docs
