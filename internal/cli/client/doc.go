// Package client calls the public APIs of a Cloud Foundry: the v3 API, the
// authorization server, log-cache and the notification service. It uses nothing
// specific to Ingot, except where noted.
//
// Tokens are renewed before they expire, calls that are safe to repeat are
// retried when a gateway fails, and long-running operations are polled at growing
// intervals.
//
// It must not import anything of the server: both sides share only the published
// API.
//
// Imports: base/cfapi.
package client
