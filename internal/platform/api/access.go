package api

import "ingot/internal/platform"

// The scopes that routes require.
const (
	scopeAdmin         = platform.ScopeAdmin
	scopeAdminReadOnly = platform.ScopeAdminReadOnly
	scopeGlobalAuditor = platform.ScopeGlobalAuditor
	scopeDashboard     = DashboardAudience + ".read"
)

// readers are the scopes of which one is required to read. What the caller can see
// depends on the resource.
var readers = append([]string{platform.ScopeRead}, platform.ReadAllScopes...)

// writers are the scopes of which one is required to change anything.
var writers = []string{platform.ScopeWrite, platform.ScopeAdmin}
