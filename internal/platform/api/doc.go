// Package api is the platform's v3 HTTP API: it reads requests, asks Store and
// Directory, and writes resources in Cloud Foundry's shapes. One file a
// resource; what they share (links, timestamps, permissions) has a file of its
// own.
//
// It owns the interfaces of what it needs. It may import fault, token, web,
// oplog and the nouns; it must not import adapters (databases, engines) nor the
// authorization server or the notification service: it meets those over HTTP.
package api
