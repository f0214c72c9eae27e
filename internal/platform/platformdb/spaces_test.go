//go:build unix

package platformdb

import (
	"slices"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
)

// beforeSpaces is the migration before the one that fills the spaces of what belongs to apps.
const beforeSpaces = 40

// TestSpacesOfApps: existing rows get the spaces of their apps, and rows that a server of the version before inserts
// are seen by those who see their apps, before FillSpaces and after.
func TestSpacesOfApps(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.MigrateTo(t.Context(), Migrations, beforeSpaces); err != nil {
			t.Fatal(err)
		}
		insert := func(guid, app string) {
			t.Helper()
			err := d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec(`INSERT INTO platform_builds (guid, created_at, updated_at, app_guid, package_guid, droplet_guid,
					state, error, lifecycle_type, stack, buildpacks, memory_mb, disk_mb, log_rate, creator_guid, creator_name,
					creator_mail, labels, annotations)
					VALUES (?, 1, 1, ?, '', '', 'STAGED', '', '', '', '', 0, 0, 0, '', '', '', '', '')`, guid, app)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			for _, name := range []string{"one", "two"} {
				if _, err := tx.Exec(`INSERT INTO platform_apps (guid, created_at, updated_at, name, name_key, space_guid, state,
					lifecycle_type, stack, buildpacks, droplet_guid, environment, features, labels, annotations)
					VALUES (?, 1, 1, ?, ?, ?, 'STOPPED', '', '', '', '', '', '', '', '')`, "app-"+name, name, name,
					"space-"+name); err != nil {
					return err
				}
			}
			_, err := tx.Exec(`INSERT INTO platform_roles (guid, created_at, updated_at, type, user_guid, organization_guid,
				space_guid) VALUES ('role', 1, 1, 'space_developer', 'developer', '', 'space-one')`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		insert("build-one", "app-one")
		insert("build-two", "app-two")
		insert("build-lost", "app-lost")
		if err := d.Migrate(t.Context(), Migrations); err != nil {
			t.Fatal(err)
		}
		s := New(d)
		expect := func(when string, want ...string) {
			t.Helper()
			var got []string
			err := s.View(t.Context(), func(tx platform.Tx) error {
				page, _, err := tx.Builds().List(platform.Query{Reader: &platform.Reader{UserGUID: "developer"}, Order: "guid"})
				for _, b := range page {
					got = append(got, b.GUID)
				}
				return err
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s the developer sees %v, %v, want %v", when, got, err, want)
			}
		}
		expect("after the migration", "build-one")
		insert("build-old", "app-one")
		insert("build-other", "app-two")
		expect("before they are filled", "build-old", "build-one")
		for range 2 {
			if err := s.FillSpaces(t.Context()); err != nil {
				t.Fatal(err)
			}
			expect("after they are filled", "build-old", "build-one")
		}
	})
}

// TestOwnedByApps: every table of what belongs to an app is among those that repeat its space.
func TestOwnedByApps(t *testing.T) {
	t.Parallel()
	var have []string
	for name, owned := range map[string]bool{
		processes.name: processes.ofApp != nil, sidecars.name: sidecars.ofApp != nil, tasks.name: tasks.ofApp != nil,
		deployments.name: deployments.ofApp != nil, revisions.name: revisions.ofApp != nil,
		packages.name: packages.ofApp != nil, builds.name: builds.ofApp != nil, droplets.name: droplets.ofApp != nil,
	} {
		if owned {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	if want := slices.Sorted(slices.Values(ownedByApps)); !slices.Equal(have, want) {
		t.Errorf("tables with the space of their app are %v, want %v", have, want)
	}
}
