// Package accesslog writes the router's access lines to the logs of their apps, in batches.
//
// The package must not know where the lines are stored.
//
// Imports: base/background, base/connlimit, platform, platform/edge/router.
package accesslog
