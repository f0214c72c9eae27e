package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// internalDomain is the domain of routes that only instances can reach, as in
// every Cloud Foundry.
const internalDomain = "apps.internal"

// EnsureDefaults stores what every platform has and does not exist yet: a stack,
// the shared domain of apps, the internal domain, the shared isolation segment,
// the default quota, usage events, and, at the first start, the default security
// groups.
func (p *Platform) EnsureDefaults(tx platform.Tx, domain string) error {
	if err := ensure(tx.Stacks(), platform.Where("name", p.Stack), &platform.Stack{Name: p.Stack, Description: "The system this server runs on", Default: true, State: platform.StackActive}); err != nil {
		return err
	}
	for _, d := range []*platform.Domain{{Name: appsDomain(domain)}, {Name: internalDomain, Internal: true}} {
		if err := ensure(tx.Domains(), platform.Where("name", d.Name), d); err != nil {
			return err
		}
	}
	for _, more := range []func(platform.Tx) error{ensureSecurityGroups, p.EnsureSharedSegment, p.EnsureUsage} {
		if err := more(tx); err != nil {
			return err
		}
	}
	_, err := p.EnsureDefaultQuota(tx)
	return err
}

// ensure inserts a resource if q finds none.
func ensure[T any](repo platform.Repo[T], q platform.Query, resource *T) error {
	_, err := repo.First(q)
	if fault.Is(err, fault.NotFound) {
		return repo.Insert(resource)
	}
	return err
}

// The organization and space of ingot up --demo.
const (
	demoOrg   = "demo"
	demoSpace = "dev"
)

// EnsureDemo creates an organization and a space to start with, with the user
// admin in both. It does nothing if the organization exists.
func (p *Platform) EnsureDemo(tx platform.Tx, adminGUID string) error {
	_, err := tx.Organizations().First(platform.Where("name", demoOrg))
	if !fault.Is(err, fault.NotFound) {
		return err
	}
	by := Actor{GUID: adminGUID, Type: "user", Name: "admin"}
	org := &platform.Organization{Name: demoOrg}
	if err := p.CreateOrganization(tx, by, org); err != nil {
		return err
	}
	space := &platform.Space{Name: demoSpace, OrgGUID: org.GUID}
	if err := p.CreateSpace(tx, by, space); err != nil {
		return err
	}
	for _, t := range []platform.RoleType{platform.SpaceManager, platform.SpaceDeveloper} {
		if err := p.GiveRole(tx, by, &platform.Role{Type: t, UserGUID: adminGUID, SpaceGUID: space.GUID}); err != nil {
			return err
		}
	}
	return nil
}

// FirstSpace returns the names of the oldest space and its organization; without a space that of
// the oldest organization only.
func FirstSpace(tx platform.Tx) (org, space string, err error) {
	oldest := platform.Query{Page: 1, PerPage: 1}
	spaces, _, err := tx.Spaces().List(oldest)
	if err != nil {
		return "", "", err
	}
	orgs, _, err := tx.Organizations().List(oldest)
	if err != nil || len(orgs) == 0 {
		return "", "", err
	}
	if len(spaces) == 0 {
		return orgs[0].Name, "", nil
	}
	of, err := tx.Organizations().Get(spaces[0].OrgGUID)
	if err != nil {
		return "", "", err
	}
	return of.Name, spaces[0].Name, nil
}
