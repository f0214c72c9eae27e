// Package api is the platform's v3 HTTP API. Handlers decode a request, decide
// whether the caller may make it, call an action, and present the result in
// Cloud Foundry's shape; they read the store but never write to it.
//
// One file a resource. What the resources are made of:
//
//	listing/     query parameters and pages of lists
//	resource.go  the declaration of a kind of resource, and the endpoints made of it: list, get, PATCH of metadata
//	request.go   a request in its transaction, and the ways to answer it: resource, body, job
//	caller.go    who makes the request and what they may see and do
//	decode.go    members of request bodies: numbers as text, null and absent
//	present.go   links, times, relationships, metadata
//	include.go   "included" resources and their selected fields
//	uploads.go   multipart uploads and downloads
//
// It owns the interfaces of what it needs. It must not import adapters
// (databases, engines) nor the authorization server or the notification
// service: it meets those over HTTP.
//
// Imports: base/fault, base/token, base/version, base/web, platform,
// platform/actions, platform/api/listing, platform/manifest, platform/services.
package api
