// Package front is the handler of every public listener: it passes each request to the part of
// the server that has its host name. TLS connections must use one name only; clients without TLS
// are redirected. Until the parts exist it answers health checks, and while another process takes
// over, requests to the API wait.
//
// It does not know what the parts do: package system publishes their route tables (Routes).
//
// Imports: base/fault, base/web, server/acme, server/certs, server/handover.
package front
