package system

import (
	"context"

	"ingot/internal/api"
	"ingot/internal/cf"
	"ingot/internal/fault"
	"ingot/internal/platform"
	"ingot/internal/staging/buildpacks"
	"ingot/internal/uaaclient"
)

// directory lets the API ask the authorization server for names.
type directory struct{ client *uaaclient.Client }

func (d directory) UsersByID(ctx context.Context, ids []string) (map[string]api.DirectoryUser, error) {
	found, err := d.client.UsersByID(ctx, ids)
	users := make(map[string]api.DirectoryUser, len(found))
	for id, u := range found {
		users[id] = api.DirectoryUser(u)
	}
	return users, err
}

func (d directory) UsersByName(ctx context.Context, names, origins []string) ([]api.DirectoryUser, error) {
	found, err := d.client.UsersByName(ctx, names, origins)
	users := make([]api.DirectoryUser, 0, len(found))
	for _, u := range found {
		users = append(users, api.DirectoryUser(u))
	}
	return users, err
}

// furnish stores what every platform has: a stack, the bundled buildpacks, the
// shared domain of apps, and the default quota. It may run at every start.
func furnish(ctx context.Context, store cf.Store, p *platform.Platform, domain string) error {
	return store.Update(ctx, func(tx cf.Tx) error {
		if err := missing(tx.Stacks(), cf.Where("name", p.Stack), func() *cf.Stack {
			return &cf.Stack{Name: p.Stack, Description: "The system this server runs on", Default: true}
		}); err != nil {
			return err
		}
		if err := missing(tx.Domains(), cf.Where("name", "apps."+domain), func() *cf.Domain {
			return &cf.Domain{Name: "apps." + domain}
		}); err != nil {
			return err
		}
		if err := missing(tx.Domains(), cf.Where("name", internalDomain), func() *cf.Domain {
			return &cf.Domain{Name: internalDomain, Internal: true}
		}); err != nil {
			return err
		}
		if _, err := p.EnsureDefaultQuota(tx); err != nil {
			return err
		}
		return bundled(tx)
	})
}

// bundled stores the buildpacks that come with this version. One that the
// version before did not have takes its place among the others.
func bundled(tx cf.Tx) error {
	before := 0 // the position of the last one that is there
	for _, b := range buildpacks.Bundled() {
		there, err := tx.Buildpacks().First(cf.Where("name", b.Name))
		if err == nil {
			before = there.Position
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		all, _, err := tx.Buildpacks().List(cf.Query{Order: "position"})
		if err != nil {
			return err
		}
		for _, other := range all {
			if other.Position > before {
				other.Position++
				if err := tx.Buildpacks().Update(other); err != nil {
					return err
				}
			}
		}
		before++
		if err := tx.Buildpacks().Insert(&cf.Buildpack{
			Name: b.Name, Position: before, Enabled: true, State: cf.Ready, Lifecycle: "buildpack", Bundled: true,
			Filename: b.Name + "-v" + buildpacks.Version + ".zip",
		}); err != nil {
			return err
		}
	}
	return nil
}

// internalDomain is the domain of routes that only instances reach, as in every
// Cloud Foundry.
const internalDomain = "apps.internal"

// missing inserts a resource that is not there.
func missing[T any](repo cf.Repo[T], q cf.Query, make func() *T) error {
	_, err := repo.First(q)
	if fault.Is(err, fault.NotFound) {
		return repo.Insert(make())
	}
	return err
}

// The organization and space of --demo.
const (
	demoOrg   = "demo"
	demoSpace = "dev"
)

// demonstrate makes an organization and a space to begin in, with the user
// admin in both.
func demonstrate(ctx context.Context, store cf.Store, p *platform.Platform, adminGUID string) error {
	by := platform.Actor{GUID: adminGUID, Type: "user", Name: "admin"}
	return store.Update(ctx, func(tx cf.Tx) error {
		_, err := tx.Organizations().First(cf.Where("name", demoOrg))
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		org := &cf.Organization{Name: demoOrg}
		if err := p.CreateOrganization(tx, by, org); err != nil {
			return err
		}
		space := &cf.Space{Name: demoSpace, OrgGUID: org.GUID}
		if err := p.CreateSpace(tx, by, space); err != nil {
			return err
		}
		for _, t := range []cf.RoleType{cf.SpaceManager, cf.SpaceDeveloper} {
			if err := p.GiveRole(tx, by, &cf.Role{Type: t, UserGUID: adminGUID, SpaceGUID: space.GUID}); err != nil {
				return err
			}
		}
		return nil
	})
}
