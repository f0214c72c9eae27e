// Package v2 serves the parts of Cloud Foundry's v2 API that clients still read.
//
// It must not import the store, and changes nothing.
//
// Imports: base/fault, base/web, platform, platform/actions, platform/api/apps,
// platform/api/listing, platform/api/rest.
package v2
