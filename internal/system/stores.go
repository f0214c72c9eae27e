package system

import (
	"context"

	"ingot/internal/base/fault"
	"ingot/internal/base/uaaclient"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api"
	"ingot/internal/platform/staging/buildpacks"
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

// ensureDefaults stores what every platform has: a stack, the bundled buildpacks, the
// shared domain of apps, and the default quota. It may run at every start.
func ensureDefaults(ctx context.Context, store platform.Store, p *actions.Platform, domain string) error {
	return store.Update(ctx, func(tx platform.Tx) error {
		if err := missing(tx.Stacks(), platform.Where("name", p.Stack), func() *platform.Stack {
			return &platform.Stack{Name: p.Stack, Description: "The system this server runs on", Default: true}
		}); err != nil {
			return err
		}
		if err := missing(tx.Domains(), platform.Where("name", "apps."+domain), func() *platform.Domain {
			return &platform.Domain{Name: "apps." + domain}
		}); err != nil {
			return err
		}
		if err := missing(tx.Domains(), platform.Where("name", internalDomain), func() *platform.Domain {
			return &platform.Domain{Name: internalDomain, Internal: true}
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
func bundled(tx platform.Tx) error {
	before := 0 // the position of the last one that is there
	for _, b := range buildpacks.Bundled() {
		there, err := tx.Buildpacks().First(platform.Where("name", b.Name))
		if err == nil {
			before = there.Position
			continue
		}
		if !fault.Is(err, fault.NotFound) {
			return err
		}
		all, _, err := tx.Buildpacks().List(platform.Query{Order: "position"})
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
		if err := tx.Buildpacks().Insert(&platform.Buildpack{
			Name: b.Name, Position: before, Enabled: true, State: platform.BuildpackReady, Lifecycle: "buildpack", Bundled: true,
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
func missing[T any](repo platform.Repo[T], q platform.Query, make func() *T) error {
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

// createDemo makes an organization and a space to begin in, with the user
// admin in both.
func createDemo(ctx context.Context, store platform.Store, p *actions.Platform, adminGUID string) error {
	by := actions.Actor{GUID: adminGUID, Type: "user", Name: "admin"}
	return store.Update(ctx, func(tx platform.Tx) error {
		_, err := tx.Organizations().First(platform.Where("name", demoOrg))
		if !fault.Is(err, fault.NotFound) {
			return err
		}
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
	})
}
