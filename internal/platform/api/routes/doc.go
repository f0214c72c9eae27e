// Package routes serves domains, routes and their destinations, security groups and network
// policies. Network policies and router groups are separate APIs in Cloud Foundry.
//
// It must not import the store, the router or engines.
//
// Imports: base/fault, base/token, base/web, platform, platform/actions,
// platform/api/listing, platform/api/orgs, platform/api/rest.
package routes
