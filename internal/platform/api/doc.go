// Package api is the platform's v3 HTTP API: it registers the routes of the packages below
// it, and serves the documents that list their URLs.
//
// Handlers decode a request, decide whether the caller may make it, call an action, and
// present the result in Cloud Foundry's shape; they read the store but never write to it.
// There is one file per resource:
//
//	apps/      apps, processes, sidecars, tasks, deployments, revisions, environments, manifests
//	builds/    packages, builds, droplets, buildpacks, stacks, and uploads and downloads of them
//	routes/    routes, domains, security groups, network policies
//	services/  brokers, offerings, plans, service instances, bindings
//	orgs/      organizations, spaces, roles, users, quotas, isolation segments
//	admin/     feature flags, jobs, audit and usage events
//	v2/        what clients still read of the v2 API
//	rest/      what they share: requests, callers, kinds of resources, links
//	listing/   query parameters and pages of lists
//	source/    apps from a zip or an image, deployed by the server
//	gitpush/   git push and git clone
//	uploads/   checks and stores the uploaded files
//	ratelimit/ limits the requests of callers
//
// Package web verified the token and its scopes before a handler is called; the
// handler checks the roles of the caller. Long deletions and operations of brokers
// are jobs, which package platform/services runs. The tests of all resources are here, because
// they call the whole API.
//
// The packages define interfaces for what they need. They must not import
// implementations of the store or of engines, nor the authorization server or the
// notification service: they call those over HTTP.
//
// Imports: base/fault, base/token, base/version, base/web, platform,
// platform/actions, platform/api/admin, platform/api/apps, platform/api/builds,
// platform/api/gitpush, platform/api/orgs, platform/api/rest,
// platform/api/routes, platform/api/services, platform/api/source,
// platform/api/v2, platform/logs, platform/run/gitfetch, platform/services.
package api
