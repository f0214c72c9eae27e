// Package routetable divides the routes that the controller publishes between the router and the
// name server of instances.
//
// It decides nothing: a route says itself whether it is internal.
//
// Imports: platform/edge/router, platform/instance/dns,
// platform/run/controller/routing.
package routetable
