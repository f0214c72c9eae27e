package api

import "ingot/internal/platform"

// The scopes of which routes need one.
const (
	scopeAdmin         = platform.ScopeAdmin
	scopeAdminReadOnly = platform.ScopeAdminReadOnly
	scopeGlobalAuditor = platform.ScopeGlobalAuditor
	scopeDashboard     = DashboardAudience + ".read"
)

// readers are the scopes of which one is needed to read anything at all. What
// of it is decided by the resource.
var readers = append([]string{platform.ScopeRead}, platform.ReadAllScopes...)

// writers are the scopes of which one is needed to change anything.
var writers = []string{platform.ScopeWrite, platform.ScopeAdmin}
