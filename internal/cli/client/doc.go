// Package client calls the public APIs of a Cloud Foundry: the v3 API, the
// authorization server, log-cache and the notification service. It knows
// nothing that only Ingot has, except where it says so.
//
// Tokens are renewed before they end, calls that can be repeated are repeated
// when a gateway fails, and whatever takes time is asked for at intervals that
// start small and grow.
//
// It must not import anything of the server: what both sides know is the
// published API.
//
// Imports: the standard library only.
package client
