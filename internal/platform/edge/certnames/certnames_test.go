package certnames_test

import (
	"errors"
	"fmt"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/edge/certnames"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/platformdb"
)

// TestCertified decides which names have certificates: the server's own, and hosts with a
// route of their own; with a DNS program those of shared domains have a wildcard.
func TestCertified(t *testing.T) {
	t.Parallel()
	store := platformdb.New(dbtest.Migrated(t, db.SQLite, platformdb.Migrations))
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
		steps := []error{
			tx.Organizations().Insert(&platform.Organization{Resource: id("org"), Name: "org"}),
			tx.Spaces().Insert(&platform.Space{Resource: id("space"), Name: "space", OrgGUID: "org"}),
			tx.Domains().Insert(&platform.Domain{Resource: id("shared"), Name: "apps.example.test"}),
			tx.Domains().Insert(&platform.Domain{Resource: id("private"), Name: "shop.example.com", OrgGUID: "org"}),
		}
		for i, r := range []platform.Route{{Host: "one", DomainGUID: "shared"}, {Host: "*", DomainGUID: "shared"},
			{DomainGUID: "private"}, {Host: "*", DomainGUID: "private"}, {Host: "www", DomainGUID: "private"}} {
			r.Resource, r.SpaceGUID = id(fmt.Sprint("route ", i)), "space"
			steps = append(steps, tx.Routes().Insert(&r))
		}
		return errors.Join(steps...)
	})
	if err != nil {
		t.Fatal(err)
	}
	table := &router.Table{}
	for i, host := range []string{"one.apps.example.test", "*.apps.example.test", "shop.example.com", "*.shop.example.com",
		"www.shop.example.com"} {
		table.Set(router.Route{GUID: fmt.Sprint("route ", i), Host: host})
	}
	for _, c := range []struct{ name, without, with string }{
		{"example.test", "example.test ", "example.test "},
		{"api.example.test", "api.example.test ", "*.example.test "},
		{"doppler.example.test", "doppler.example.test ", "*.example.test "},
		{"none.example.test", "", ""},
		{"one.apps.example.test", "one.apps.example.test org", "*.apps.example.test "},
		{"any.apps.example.test", "", "*.apps.example.test "},
		{"a.b.apps.example.test", "", ""},
		{"shop.example.com", "shop.example.com org", "shop.example.com org"},
		{"www.shop.example.com", "www.shop.example.com org", "www.shop.example.com org"},
		{"any.shop.example.com", "", ""},
		{"example.com", "", ""},
	} {
		for hook, want := range map[string]string{"": c.without, "hook": c.with} {
			names := certnames.Names{Store: store, Host: table.Host, Domain: "example.test", Own: []string{"api.example.test",
				"doppler.example.test"}, Wildcards: hook != ""}
			grant, err := names.Decide(t.Context(), c.name)
			got := grant.Subject + " " + grant.Owner
			if err != nil {
				got = ""
			}
			if got != want {
				t.Errorf("%s with the program %q: %q, %v, want %q", c.name, hook, got, err, want)
			}
		}
	}
}
