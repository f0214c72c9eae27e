// Package traffic counts the requests to instances for the API: those through this server's
// router, and those through the other servers of the database.
//
// It must not know where routes come from.
//
// Imports: base/background, platform, platform/api/apps, platform/edge/router.
package traffic
