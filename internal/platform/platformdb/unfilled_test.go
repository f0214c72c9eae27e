//go:build unix

package platformdb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// owned is a noun that belongs to apps.
type owned struct {
	name string
	// insert stores a row; old is as a server of an older version does, which does not know the column of the space.
	insert func(tx platform.Tx, guid, app string, old bool) error
	list   func(tx platform.Tx, q platform.Query) (guids []string, total int, err error)
	first  func(tx platform.Tx, q platform.Query) (guid string, err error)
	count  func(tx platform.Tx, q platform.Query) (int, error)
}

func ownedBy[T any](t *table[T], repo func(platform.Tx) platform.Repo[T], make func(app string) *T) owned {
	return owned{
		name: t.name,
		insert: func(tx platform.Tx, guid, app string, old bool) error {
			row := make(app)
			t.base(row).GUID = guid
			if !old {
				return repo(tx).Insert(row)
			}
			names, x := []string{}, tx.(*transaction).Tx
			for _, c := range t.stored {
				names = append(names, c.name)
			}
			values, err := t.values(x, row)
			if err == nil {
				_, err = x.Exec("INSERT INTO "+t.name+" ("+strings.Join(names, ", ")+") VALUES ("+marks(len(names))+")", values...)
			}
			return err
		},
		list: func(tx platform.Tx, q platform.Query) (guids []string, total int, err error) {
			page, total, err := repo(tx).List(q)
			for _, row := range page {
				guids = append(guids, t.base(row).GUID)
			}
			return guids, total, err
		},
		first: func(tx platform.Tx, q platform.Query) (string, error) {
			row, err := repo(tx).First(q)
			if err != nil {
				return "", err
			}
			return t.base(row).GUID, nil
		},
		count: func(tx platform.Tx, q platform.Query) (int, error) { return repo(tx).Count(q) },
	}
}

var ownedNouns = []owned{
	ownedBy(processes, platform.Tx.Processes, func(app string) *platform.Process {
		return &platform.Process{AppGUID: app}
	}),
	ownedBy(sidecars, platform.Tx.Sidecars, func(app string) *platform.Sidecar {
		return &platform.Sidecar{AppGUID: app}
	}),
	ownedBy(deployments, platform.Tx.Deployments, func(app string) *platform.Deployment {
		return &platform.Deployment{AppGUID: app}
	}),
	ownedBy(revisions, platform.Tx.Revisions, func(app string) *platform.Revision {
		return &platform.Revision{AppGUID: app}
	}),
	ownedBy(tasks, platform.Tx.Tasks, func(app string) *platform.Task { return &platform.Task{AppGUID: app} }),
	ownedBy(packages, platform.Tx.Packages, func(app string) *platform.Package { return &platform.Package{AppGUID: app} }),
	ownedBy(builds, platform.Tx.Builds, func(app string) *platform.Build { return &platform.Build{AppGUID: app} }),
	ownedBy(droplets, platform.Tx.Droplets, func(app string) *platform.Droplet { return &platform.Droplet{AppGUID: app} }),
}

// TestRowsOfOlderServers: while servers of an older version use the database, what they insert is found by its guid, in
// lists and with filters, and is counted, and only by readers who see its space. It is the same before and after
// FillSpaces.
func TestRowsOfOlderServers(t *testing.T) {
	t.Parallel()
	var names []string
	for _, n := range ownedNouns {
		names = append(names, n.name)
	}
	if !slices.Equal(names, ownedByApps) {
		t.Errorf("the test knows %v, want %v", names, ownedByApps)
	}
	rows := []struct {
		guid, app, space, org string
		old                   bool
	}{
		{"new-1", "app-n", "space-1", "org-1", false},
		{"old-1", "app-1", "space-1", "org-1", true},
		{"old-2", "app-2", "space-2", "org-1", true},
		{"old-3", "app-3", "space-3", "org-2", true},
	}
	readers := map[string]struct {
		reader *platform.Reader
		sees   []string // spaces
	}{
		"developer": {&platform.Reader{UserGUID: "developer"}, []string{"space-1"}},
		"manager":   {&platform.Reader{UserGUID: "manager"}, []string{"space-1", "space-2"}},
		"stranger":  {&platform.Reader{UserGUID: "stranger"}, nil},
		"admin":     {nil, []string{"space-1", "space-2", "space-3"}},
	}
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		if err := d.Migrate(t.Context(), Migrations); err != nil {
			t.Fatal(err)
		}
		s := New(d)
		if err := s.Update(t.Context(), func(tx platform.Tx) error {
			for _, r := range []*platform.Role{
				{Type: platform.SpaceDeveloper, UserGUID: "developer", SpaceGUID: "space-1"},
				{Type: platform.OrgManager, UserGUID: "manager", OrgGUID: "org-1"},
			} {
				if err := tx.Roles().Insert(r); err != nil {
					return err
				}
			}
			for i, r := range rows {
				if i > 0 { // the first is in the same space as the second
					space := &platform.Space{Name: r.space, OrgGUID: r.org}
					space.GUID = r.space
					if err := tx.Spaces().Insert(space); err != nil {
						return err
					}
				}
				app := &platform.App{Name: r.app, SpaceGUID: r.space}
				app.GUID = r.app
				if err := tx.Apps().Insert(app); err != nil {
					return err
				}
				for _, n := range ownedNouns {
					if err := n.insert(tx, r.guid, r.app, r.old); err != nil {
						return fmt.Errorf("%s: %w", n.name, err)
					}
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}

		filters := map[string]func(space, org string) bool{
			"":                                 func(string, string) bool { return true },
			"space_guid space-1":               func(space, _ string) bool { return space == "space-1" },
			"space_guid space-2 space-3":       func(space, _ string) bool { return space != "space-1" },
			"space_guid space-9":               func(string, string) bool { return false },
			"organization_guid org-1":          func(_, org string) bool { return org == "org-1" },
			"organization_guid org-2":          func(_, org string) bool { return org == "org-2" },
			"organization_guid org-1 org-9":    func(_, org string) bool { return org == "org-1" },
			"not space_guid space-1":           func(space, _ string) bool { return space != "space-1" },
			"guid new-1 old-1 old-2 old-3":     func(string, string) bool { return true },
			"app_guid app-n app-1 app-2 app-3": func(string, string) bool { return true },
		}
		compare := func(t *testing.T, n owned) {
			t.Helper()
			for as, r := range readers {
				for filter, matches := range filters {
					q := platform.Query{Reader: r.reader, Order: "guid"}
					if filter != "" {
						words := strings.Fields(filter)
						c := platform.Cond{Op: platform.OpIn}
						if words[0] == "not" {
							c.Op, words = platform.OpNotIn, words[1:]
						}
						c.Field, c.Values = words[0], values(words[1:])
						q.Where = append(q.Where, c)
					}
					var want []string
					for _, row := range rows {
						visible := slices.Contains(r.sees, row.space) && matches(row.space, row.org)
						if visible {
							want = append(want, row.guid)
						}
						one := q.And(platform.In("guid", row.guid))
						if err := s.View(t.Context(), func(tx platform.Tx) error {
							got, err := n.first(tx, one)
							if !visible && fault.Is(err, fault.NotFound) || visible && err == nil && got == row.guid {
								return nil
							}
							return fmt.Errorf("%q, %w", got, err)
						}); err != nil {
							t.Errorf("%s, %q: %s: %v, want it to be found: %t", as, filter, row.guid, err, visible)
						}
					}
					for _, perPage := range []int{0, 1} {
						q.PerPage = perPage
						if err := s.View(t.Context(), func(tx platform.Tx) error {
							got, total, err := n.list(tx, q)
							if err != nil {
								return err
							}
							counted, err := n.count(tx, q)
							if perPage > 0 {
								want = want[:min(len(want), perPage)]
							} else if total != len(want) {
								t.Errorf("%s, %q: total is %d, want %d", as, filter, total, len(want))
							}
							if !slices.Equal(got, want) || counted != total {
								t.Errorf("%s, %q: %v, %d counted of %d, want %v", as, filter, got, counted, total, want)
							}
							return err
						}); err != nil {
							t.Errorf("%s, %q: %v", as, filter, err)
						}
					}
				}
			}
		}
		for _, n := range ownedNouns {
			t.Run(n.name, func(t *testing.T) { compare(t, n) }) //nolint:paralleltest // before they are filled
		}
		if err := s.FillSpaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, n := range ownedNouns {
			t.Run(n.name+" filled", func(t *testing.T) { compare(t, n) }) //nolint:paralleltest // as above
		}
	})
}
