// Package api is the platform's v3 HTTP API. Handlers decode a request, decide
// whether the caller may make it, call an action, and present the result in
// Cloud Foundry's shape; they read the store but never write to it.
//
// There is one file per resource. They share:
//
//	listing/     query parameters and pages of lists
//	resource.go  the declaration of a kind of resource, and the endpoints made of it: list, get, PATCH of metadata
//	request.go   a request in its transaction, and the ways to answer it: resource, body, job
//	caller.go    who makes the request and what they may see and do
//	decode.go    members of request bodies: numbers as text, null and absent
//	present.go   links, times, relationships, metadata
//	include.go   "included" resources and their selected fields
//	uploads.go   multipart uploads and downloads; uploads/ checks and stores the files
//
// Package web verified the token and its scopes before a handler is called; the
// handler checks the roles of the caller. Long deletions and operations of brokers
// are jobs, which package services runs.
//
// It defines interfaces for what it needs. It must not import implementations of
// the store or of engines, nor the authorization server or the notification
// service: it calls those over HTTP.
//
// Imports: base/fault, base/token, base/tracing, base/version, base/web,
// platform, platform/actions, platform/api/listing, platform/manifest,
// platform/services, github.com/google/uuid.
package api
