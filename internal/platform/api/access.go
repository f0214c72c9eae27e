package api

import "ingot/internal/base/token"

// The scopes of the platform.
const (
	scopeRead          = "cloud_controller.read"
	scopeWrite         = "cloud_controller.write"
	scopeAdmin         = "cloud_controller.admin"
	scopeAdminReadOnly = "cloud_controller.admin_read_only"
	scopeGlobalAuditor = "cloud_controller.global_auditor"
	scopeDashboard     = DashboardAudience + ".read"
)

// readers are the scopes of which one is needed to read anything at all. What
// of it is decided by the resource.
var readers = []string{scopeRead, scopeAdmin, scopeAdminReadOnly, scopeGlobalAuditor}

// writers are the scopes of which one is needed to change anything.
var writers = []string{scopeWrite, scopeAdmin}

// readsAll reports whether the caller may see every resource.
func readsAll(c *token.Claims) bool {
	return c.HasAny(scopeAdmin, scopeAdminReadOnly, scopeGlobalAuditor)
}

// callerID is the guid by which the platform knows the caller: the user's, or
// the client's when it acts for itself.
func callerID(c *token.Claims) string {
	if c.IsUser() {
		return c.UserID
	}
	return c.ClientID
}
