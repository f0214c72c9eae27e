package system

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// TestSharedDomain: a private domain with the name of a git server does not get what is meant for the server.
func TestSharedDomain(t *testing.T) {
	t.Parallel()
	store := platformdb.New(dbtest.Migrated(t, db.SQLite, platformdb.Migrations))
	testkit.Must(t, store.Update(t.Context(), func(tx platform.Tx) error {
		org := platform.Organization{Name: "o"}
		if err := tx.Organizations().Insert(&org); err != nil {
			return err
		}
		for _, d := range []platform.Domain{{Name: "apps.example.com"}, {Name: "github.com", OrgGUID: org.GUID},
			{Name: "git.apps.example.com", OrgGUID: org.GUID}} {
			if err := tx.Domains().Insert(&d); err != nil {
				return err
			}
		}
		return nil
	}))
	for host, want := range map[string]bool{
		"shop.apps.example.com": true, "SHOP.Apps.Example.com:8080": true, "apps.example.com": true,
		"github.com": false, "www.github.com:443": false, "git.apps.example.com": false, "x.git.apps.example.com": false,
		"example.com": false, "elsewhere.org": false, "": false, "127.0.0.1:80": false,
	} {
		if got := onSharedDomain(store, host); got != want {
			t.Errorf("%q is on a shared domain: %v, want %v", host, got, want)
		}
	}
}
