// Package api is the platform's v3 HTTP API: it reads requests, asks Store and
// Directory, and writes resources in Cloud Foundry's shapes. One file a
// resource; what they share (links, timestamps, permissions) has a file of its
// own.
//
// It owns the interfaces of what it needs. It must not import adapters
// (databases, engines) nor the authorization server or the notification
// service: it meets those over HTTP.
//
// Imports: base/fault, base/token, base/version, base/web, platform,
// platform/actions, platform/manifest, platform/services.
package api
