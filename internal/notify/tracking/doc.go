// Package tracking marks the links and the image of HTML mail by which opens and clicks are counted, and opens these
// marks again. Where a link leads is in its mark, which only this service can make: there is no address that leads
// wherever a caller wants.
//
// It decides nothing: delivery marks mail only to recipients who consented, and the HTTP API asks again
// before it counts.
//
// It must not import a store, an HTTP API or delivery.
//
// Imports: notify, golang.org/x/net/html.
package tracking
