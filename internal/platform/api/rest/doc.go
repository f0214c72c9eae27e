// Package rest has what the handlers of the v3 API share:
//
//	server.go    what handlers need of the platform
//	resource.go  the declaration of a kind of resource, and its lists
//	handlers.go  handlers of what most resources have: create, PATCH, delete, views and changes of a part
//	request.go   a request in its transaction, and the ways to answer it: resource, body, job
//	caller.go    who makes the request and what they may see and do
//	access.go    the scopes that routes require
//	flags.go     feature flags
//	decode.go    members of request bodies: numbers as text, null and absent
//	present.go   links, times, metadata
//	relations.go relationships in requests and responses
//	include.go   "included" resources
//
// It must not import the packages of the resources.
//
// Imports: base/fault, base/pattern, base/token, base/tracing, base/web,
// platform, platform/actions, platform/api/listing, platform/services.
package rest
