package rest

import (
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// Readers are the scopes of which one is required to read. What the caller can see
// depends on the resource.
var Readers = append([]string{platform.ScopeRead}, platform.ReadAllScopes...)

// Writers are the scopes of which one is required to change anything.
var Writers = []string{platform.ScopeWrite, platform.ScopeAdmin}

// The access of most routes; the handlers also check the roles of the caller.
var (
	Read  = web.Scope(Readers...)
	Write = web.Scope(Writers...)
	Admin = web.Scope(platform.ScopeAdmin)
)
