package actions

import (
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// TestUsageOfOlderServers: quotas count the tasks that servers of an older version create, without their app's space,
// while they use the same database.
func TestUsageOfOlderServers(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			d := dbtest.Migrated(t, dialect, platformdb.Migrations)
			store := platformdb.New(d)
			id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
			if err := store.Update(t.Context(), func(tx platform.Tx) error {
				for _, name := range []string{"one", "two"} {
					if err := tx.Spaces().Insert(&platform.Space{Resource: id("space-" + name), Name: name,
						OrgGUID: "org-" + name}); err != nil {
						return err
					}
					app := &platform.App{Resource: id("app-" + name), Name: name, SpaceGUID: "space-" + name}
					if err := tx.Apps().Insert(app); err != nil {
						return err
					}
					for i, guid := range []string{"new-" + name, "old-" + name} {
						if err := tx.Tasks().Insert(&platform.Task{Resource: id(guid), AppGUID: app.GUID, Sequence: i,
							State: platform.TaskPending, MemoryMB: 32}); err != nil {
							return err
						}
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if err := d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("UPDATE platform_tasks SET space_guid = '' WHERE guid LIKE 'old-%'")
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for field, guid := range map[string]string{"space_guid": "space-one", "organization_guid": "org-one"} {
				var used Usage
				if err := store.View(t.Context(), func(tx platform.Tx) (err error) {
					used, err = Running(tx, field, guid)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				if used.Tasks != 2 || used.MemoryMB != 64 {
					t.Errorf("%s uses %d MB for %d tasks, want 64 for 2", guid, used.MemoryMB, used.Tasks)
				}
			}
		})
	}
}
