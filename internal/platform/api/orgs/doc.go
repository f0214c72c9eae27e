// Package orgs serves organizations and spaces of the v3 API, with their users, roles,
// quotas, usage and isolation segments.
//
// It looks up the names of users in a Directory. It must not import the store or the
// authorization server.
//
// Imports: base/fault, base/web, platform, platform/actions,
// platform/api/listing, platform/api/rest.
package orgs
