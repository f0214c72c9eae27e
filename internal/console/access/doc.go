// Package access has the console's pages about who may do what: organizations, spaces and their
// members with quotas, and the authorization server's users and clients.
//
// It must not import another part of the console.
//
// Imports: base/cfapi, base/fault, base/web, console/page.
package access
