// Package appinfo reads from the platform's store what logs and log drains need
// to know about apps: their names, who may read their logs, what their instances
// use, and the drains of their service bindings.
//
// Names are cached for a moment, because they are needed for every response.
//
// It must not import a store or an engine; it gets them as interfaces.
//
// Imports: base/db, base/token, platform, platform/actions, platform/logs,
// platform/logs/drain, platform/run/controller/usage.
package appinfo
