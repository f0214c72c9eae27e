package system

import (
	"context"
	"net"
	"strings"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/platform"
)

// domainTime limits how long the domain of a git server is looked for.
const domainTime = 5 * time.Second

// sharedRoutes returns the routes of this server in domains that administrators created. Every organization may create
// a private domain with any name, and would get the credentials that are meant for the git server with that name.
func sharedRoutes(r *runtime) safedial.Routes {
	routes := r.routes
	routes.Has = func(host, path string) bool {
		return r.routes.Has(host, path) && onSharedDomain(r.store, host)
	}
	return routes
}

// onSharedDomain reports whether the domain of a host, the one with the longest name, belongs to no organization.
func onSharedDomain(store platform.Store, host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	var names []any
	for rest, found := strings.ToLower(host), true; found; _, rest, found = strings.Cut(rest, ".") {
		names = append(names, rest)
	}
	ctx, cancel := context.WithTimeout(context.Background(), domainTime)
	defer cancel()
	var longest *platform.Domain
	err := store.View(ctx, func(tx platform.Tx) error {
		longest = nil
		found, _, err := tx.Domains().List(platform.Where("name", names...))
		for _, d := range found {
			if longest == nil || len(d.Name) > len(longest.Name) {
				longest = d
			}
		}
		return err
	})
	return err == nil && longest != nil && longest.OrgGUID == ""
}
