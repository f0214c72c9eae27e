package dns_test

import (
	"errors"
	"log/slog"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/instance/dns"
	"ingot/internal/platform/platformdb"
)

// Names below shared domains are the platform's; those of private and internal
// domains are not.
func TestPlatformNames(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	store := platformdb.New(d)
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		org := &platform.Organization{Name: "o"}
		return errors.Join(
			tx.Organizations().Insert(org),
			tx.Domains().Insert(&platform.Domain{Name: "Apps.example.com"}),
			tx.Domains().Insert(&platform.Domain{Name: "private.example.net", OrgGUID: org.GUID}),
			tx.Domains().Insert(&platform.Domain{Name: "apps.internal", Internal: true}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	names := &dns.PlatformNames{Store: store, Own: []string{"api.example.com"}, Log: slog.New(slog.DiscardHandler)}
	for name, want := range map[string]bool{
		"api.example.com": true, "x.api.example.com": false, "example.com": false,
		"apps.example.com": true, "shop.apps.example.com": true, "notapps.example.com": false,
		"private.example.net": false, "shop.private.example.net": false, "shop.apps.internal": false,
	} {
		if got := names.Has(name); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
		if got, want := names.Internal(name), name == "shop.apps.internal"; got != want {
			t.Errorf("%s: internal is %t, want %t", name, got, want)
		}
	}
}
