package certnames

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/platform"
)

// Names decides which names have certificates.
type Names struct {
	Store platform.Store
	// Host returns the host of the route that serves a name.
	Host func(name string) (host string, ok bool)
	// Domain and Own are the names of the server.
	Domain string
	Own    []string
	// Wildcards means that there can be wildcard certificates.
	Wildcards bool
}

// Grant allows a certificate.
type Grant struct {
	// Subject is the name that the certificate is for.
	Subject string
	// Owner is the organization whose certificate it is; empty means the server.
	Owner string
}

// Refusal says why a name has no certificate.
type Refusal string

func (r Refusal) Error() string { return string(r) }

const (
	errNoRoute      = Refusal("no route has this host")
	errOnlyWildcard = Refusal("only a wildcard route has this host; such hosts have certificates in shared domains, " +
		"with --acme-dns-hook")
)

// Decide allows the server's own names and hosts with a route. Hosts that only a wildcard
// route covers are unlimited, so they have to share a wildcard certificate.
func (n Names) Decide(ctx context.Context, name string) (Grant, error) {
	_, parent, _ := strings.Cut(name, ".")
	if name == n.Domain || slices.Contains(n.Own, name) {
		if n.Wildcards && parent == n.Domain {
			return Grant{Subject: "*." + parent}, nil
		}
		return Grant{Subject: name}, nil
	}
	host, ok := n.Host(name)
	if !ok {
		return Grant{}, errNoRoute
	}
	grant := Grant{Subject: name}
	err := n.Store.View(ctx, func(tx platform.Tx) error {
		shared, org, err := ownerOf(tx, host)
		if n.Wildcards && shared == parent {
			grant = Grant{Subject: "*." + parent}
			return err
		}
		grant.Owner = org
		return err
	})
	if err == nil && strings.HasPrefix(host, "*.") && !strings.HasPrefix(grant.Subject, "*.") {
		err = errOnlyWildcard
	}
	return grant, err
}

// ownerOf returns the organization of a route, by its host and domain, and the domain if it
// is a shared one.
func ownerOf(tx platform.Tx, name string) (shared, org string, err error) {
	for host, domain := "", name; ; {
		found, _, err := tx.Domains().List(platform.Where("name", domain))
		if err != nil {
			return "", "", err
		}
		for _, d := range found {
			routes, _, err := tx.Routes().List(platform.Where("domain_guid", d.GUID).And(platform.In("host", host)))
			if err != nil {
				return "", "", err
			}
			if len(routes) == 0 {
				continue
			}
			space, err := tx.Spaces().Get(routes[0].SpaceGUID)
			if err != nil {
				return "", "", err
			}
			if d.OrgGUID == "" {
				shared = strings.ToLower(d.Name)
			}
			return shared, space.OrgGUID, nil
		}
		label, rest, ok := strings.Cut(domain, ".")
		if !ok {
			return "", "", errNoRoute
		}
		domain, host = rest, strings.TrimPrefix(host+"."+label, ".")
	}
}
