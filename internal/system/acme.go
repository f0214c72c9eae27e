package system

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ingot/internal/platform"
	"ingot/internal/server/acme"
	"ingot/internal/server/certs"
	"ingot/internal/server/health"
)

// openACME starts to order certificates, if that is configured.
func (s *System) openACME(ctx context.Context, b *frontend, r *runtime) error {
	c := s.config
	if b.secure == nil || !c.acme() {
		return nil
	}
	o := acme.Options{
		Email: c.ACMEEmail, Directory: c.ACMEDirectory, Hook: c.ACMEDNSHook, Store: r.store.Certificates(),
		HTTP: b.public.Addr(), TLS: b.secure.listener.Addr(), Default: "api." + c.Domain,
		Decide: certified{c, r}.decide, Log: c.Log,
	}
	if c.ACMECA != "" {
		var err error
		if o.Roots, err = certs.Pool(c.ACMECA); err != nil {
			return fmt.Errorf("--acme-ca: %w", err)
		}
	}
	m := acme.New(o)
	if err := s.steps.Run(ctx, m); err != nil {
		return err
	}
	b.registry.MustRegister(health.Recovering{Collector: m})
	b.secure.ACME.Store(m)
	return nil
}

// certified decides which names have certificates.
type certified struct {
	config Config
	*runtime
}

const (
	errNoRoute      = acme.Refusal("no route has this host")
	errOnlyWildcard = acme.Refusal("only a wildcard route has this host; such hosts have certificates in shared domains, with --acme-dns-hook")
)

// decide allows the server's own names and hosts with a route. Hosts that only a wildcard
// route covers are unlimited, so they have to share a wildcard certificate.
func (c certified) decide(ctx context.Context, name string) (acme.Grant, error) {
	_, parent, _ := strings.Cut(name, ".")
	hooked := c.config.ACMEDNSHook != ""
	if name == c.config.Domain || slices.Contains(c.config.ownNames(), name) {
		if hooked && parent == c.config.Domain {
			return acme.Grant{Subject: "*." + parent}, nil
		}
		return acme.Grant{Subject: name}, nil
	}
	host, ok := c.table.Host(name)
	if !ok {
		return acme.Grant{}, errNoRoute
	}
	grant := acme.Grant{Subject: name}
	err := c.store.View(ctx, func(tx platform.Tx) error {
		shared, org, err := ownerOf(tx, host)
		if hooked && shared == parent {
			grant = acme.Grant{Subject: "*." + parent}
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
