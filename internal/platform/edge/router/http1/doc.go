// Package http1 parses the heads and bodies of HTTP/1 messages for the router's fast path, and has the
// rules about headers and trailers that are not passed on.
//
// It accepts less than package net/http: what is ambiguous or rare is left to the HTTP server. Nothing
// is copied or allocated for a request: headers are offsets into its head.
//
// The package must not import the router, and reads from no connection.
//
// Imports: golang.org/x/net/http/httpguts.
package http1
