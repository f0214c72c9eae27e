//go:build unix

package platformdb

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
)

// BenchmarkReads is for readers of many spaces, and of one with many apps.
func BenchmarkReads(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d := dbtest.New(b, dialect)
			populate(b, d)
			// 3,000 spaces more in the organization of the manager, and one more space that has all packages.
			if err := d.Update(b.Context(), func(tx *db.Tx) error {
				for _, statement := range []string{
					`INSERT INTO platform_spaces (guid, created_at, updated_at, name, name_key, organization_guid, quota_guid,
						ssh_allowed, labels, annotations) SELECT 'more-' || s.n, 1, 1, 'more' || s.n, 'more' || s.n, 'org-1', '', TRUE,
						'', '' FROM ` + sequence[dialect],
					`INSERT INTO platform_roles (guid, created_at, updated_at, type, user_guid, organization_guid, space_guid)
						SELECT 'one-' || s.n, 1, 1, 'space_developer', 'big', '', 'space-big' FROM ` + sequence[dialect] + ` WHERE s.n = 1`,
				} {
					if _, err := tx.Exec(statement, 3000); err != nil {
						return err
					}
				}
				_, err := tx.Exec("UPDATE platform_packages SET space_guid = 'space-big'")
				if err == nil && dialect == db.Postgres {
					_, err = tx.Exec("ANALYZE")
				}
				return err
			}); err != nil {
				b.Fatal(err)
			}
			s := New(d)
			manager, big := &platform.Reader{UserGUID: "manager"}, &platform.Reader{UserGUID: "big"}
			of := func(r *platform.Reader, field, guid string) platform.Query {
				q := platform.Where(field, guid)
				q.Reader = r
				return q
			}
			for name, read := range map[string]selected{
				"App":             selectedFrom(apps, platform.Tx.Apps, of(manager, "guid", "app-9")),
				"Process":         selectedFrom(processes, platform.Tx.Processes, of(manager, "guid", "app-9")),
				"Route":           selectedFrom(routes, platform.Tx.Routes, of(manager, "guid", "route-9")),
				"ProcessesOf3000": selectedFrom(processes, platform.Tx.Processes, platform.Query{Reader: manager}),
				"PackagesOf10000": selectedFrom(packages, platform.Tx.Packages, platform.Query{Reader: big}),
				"PackagesInSpace": selectedFrom(packages, platform.Tx.Packages, platform.Where("space_guid", "space-big")),
				"TasksInOrg":      selectedFrom(tasks, platform.Tx.Tasks, platform.Where("organization_guid", "org-1")),
			} {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						if err := s.View(b.Context(), func(tx platform.Tx) error {
							_, _, err := read.list(tx)
							return err
						}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
