//go:build unix

package platformdb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
)

// sequence is a table of the numbers from 1 to ?.
var sequence = map[db.Dialect]string{
	db.SQLite:   `(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?) SELECT n FROM s) AS s`,
	db.Postgres: `(SELECT n FROM generate_series(1, CAST(? AS BIGINT)) AS g (n)) AS s`,
}

const (
	manyApps   = 10000
	manySpaces = 200
	manyEvents = 20000
)

// spaceOf is the space of the app, process, … number s.n.
var spaceOf = fmt.Sprintf("'space-' || (s.n %% %d + 1)", manySpaces)

// populate stores many apps, ten of which every twentieth has a label, with a
// process, a route, a package and a droplet each, in spaces of ten
// organizations. Manager manages the first organization, developer works in all
// spaces. PostgreSQL is made to know its tables, as it does by itself; SQLite
// has to do without.
func populate(t testing.TB, d *db.DB) {
	t.Helper()
	if err := d.Migrate(t.Context(), Migrations); err != nil {
		t.Fatal(err)
	}
	when := "1700000000000000000 + (s.n * 7919 % 1000003) * 1000"
	insert := func(n int, table string, columns map[string]string) {
		t.Helper()
		names, values := []string{"guid", "created_at", "updated_at"}, []string{columns["guid"], when, when}
		delete(columns, "guid")
		for name, value := range columns {
			names, values = append(names, name), append(values, value)
		}
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("INSERT INTO "+table+" ("+strings.Join(names, ", ")+") SELECT "+strings.Join(values, ", ")+
				" FROM "+sequence[d.Dialect()], n)
			return err
		})
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
	}
	fill := func(columns string, more map[string]string) map[string]string {
		for _, c := range strings.Fields(columns) {
			more[c] = "''"
		}
		return more
	}
	numbers := func(columns string, more map[string]string) map[string]string {
		for _, c := range strings.Fields(columns) {
			more[c] = "0"
		}
		return more
	}
	insert(manySpaces, "platform_roles", map[string]string{
		"guid": "'role-' || s.n", "type": "'space_developer'", "user_guid": "'developer'", "organization_guid": "''",
		"space_guid": "'space-' || s.n"})
	insert(1, "platform_roles", map[string]string{
		"guid": "'role-m'", "type": "'organization_manager'", "user_guid": "'manager'", "organization_guid": "'org-1'",
		"space_guid": "''"})
	insert(2000, "platform_roles", map[string]string{
		"guid": "'role-o-' || s.n", "type": "'space_developer'", "user_guid": "'user-' || s.n", "organization_guid": "''",
		"space_guid": "'space-' || (s.n % 200 + 1)"})
	if slow && d.Dialect() == db.SQLite {
		return // its plans are the same for empty tables, when the spaces of a reader are known
	}
	insert(10, "platform_organizations", fill("quota_guid labels annotations", map[string]string{
		"guid": "'org-' || s.n", "name": "'org' || s.n", "name_key": "'org' || s.n", "suspended": "FALSE"}))
	insert(manySpaces, "platform_spaces", fill("quota_guid labels annotations", map[string]string{
		"guid": "'space-' || s.n", "name": "'space' || s.n", "name_key": "'space' || s.n",
		"organization_guid": "'org-' || (s.n % 10 + 1)", "ssh_allowed": "TRUE"}))
	insert(manyApps, "platform_apps", fill("buildpacks environment features labels annotations", map[string]string{
		"guid": "'app-' || s.n", "name": "'App' || s.n", "name_key": "'app' || s.n",
		"space_guid": spaceOf,
		"state":      "'STARTED'", "lifecycle_type": "'buildpack'", "stack": "'linux'", "droplet_guid": "'droplet-' || s.n"}))
	insert(manyApps, "platform_processes", numbers("instances memory_mb disk_mb log_rate",
		fill("command run_as health readiness version labels annotations",
			map[string]string{"guid": "'app-' || s.n", "app_guid": "'app-' || s.n", "type": "'web'",
				"space_guid": spaceOf, "droplet_guid": "'droplet-' || s.n"})))
	insert(manyApps, "platform_routes", numbers("port", fill("path protocol options shared_spaces labels annotations",
		map[string]string{
			"guid": "'route-' || s.n", "space_guid": spaceOf,
			"domain_guid": "'domain'",
			"host":        "'host' || s.n", "host_key": "'host' || s.n"})))
	insert(manyApps, "platform_destinations", numbers("port weight", fill("process_type protocol", map[string]string{
		"guid": "'destination-' || s.n", "route_guid": "'route-' || s.n", "app_guid": "'app-' || s.n"})))
	insert(manyApps, "platform_packages", fill("error checksum image username password labels annotations",
		map[string]string{
			"guid": "'package-' || s.n", "app_guid": "'app-' || s.n", "space_guid": spaceOf, "type": "'bits'",
			"state": "'READY'"}))
	insert(manyApps, "platform_droplets",
		numbers("size", fill("build_guid error lifecycle checksum stack image buildpacks process_types sidecars "+
			"execution_metadata labels annotations",
			map[string]string{"guid": "'droplet-' || s.n", "app_guid": "'app-' || s.n", "package_guid": "'package-' || s.n",
				"space_guid": spaceOf, "state": "'STAGED'"})))
	insert(manyEvents, "platform_audit_events", fill("actor_type actor_name target_type target_name data",
		map[string]string{
			"guid": "'event-' || s.n", "type": "'audit.app.update'", "actor_guid": "'user-' || (s.n % 100)",
			"target_guid":       fmt.Sprintf("'app-' || (s.n %% %d)", manyApps),
			"space_guid":        spaceOf,
			"organization_guid": "'org-' || (s.n % 10 + 1)"}))
	insert(manyApps, "platform_jobs",
		numbers("lease attempt", fill("operation errors warnings resource_type resource_guid payload worker",
			map[string]string{
				"guid": "'job-' || s.n", "state": "CASE WHEN s.n % 100 = 0 THEN 'PROCESSING' ELSE 'COMPLETE' END", "due": when})))
	err := d.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO platform_labels (resource_type, resource_guid, name, value)
			SELECT 'apps', 'app-' || (s.n * 20), 'tier', 'v' || (s.n % 50) FROM `+sequence[d.Dialect()], manyApps/20)
		if err == nil && d.Dialect() == db.Postgres {
			_, err = tx.Exec("ANALYZE")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lite is before the name of an index that only SQLite must use: PostgreSQL
// knows better, or finds the table empty.
const lite = "sqlite:"

// selected is a list of one noun that a test looks at.
type selected struct {
	statement func(tx *db.Tx) (statement, error)
	list      func(tx platform.Tx) (rows, total int, err error)
}

func selectedFrom[T any](t *table[T], repo func(platform.Tx) platform.Repo[T], q platform.Query) selected {
	if q.PerPage == 0 {
		q.PerPage = 50
	}
	return selected{
		func(tx *db.Tx) (statement, error) {
			in, err := t.scope(tx, q)
			if err != nil {
				return statement{}, err
			}
			return t.selection(tx.Dialect(), t.list, q, in)
		},
		func(tx platform.Tx) (int, int, error) {
			page, total, err := repo(tx).List(q)
			return len(page), total, err
		},
	}
}

// TestPlans sees that lists stay fast when there is much: that the engines find
// the index made for each, and that none takes long.
func TestPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		populate(t, d)
		s := New(d)
		developer, manager := &platform.Reader{UserGUID: "developer"}, &platform.Reader{UserGUID: "manager"}
		one := &platform.Reader{UserGUID: "user-7"} // a developer of one space
		tier := []platform.LabelRequirement{{Key: "tier", Op: platform.LabelIn, Values: []string{"v7"}}}
		due := platform.Where("state", platform.JobProcessing, platform.JobPolling).
			And(platform.Cond{Field: "due", Op: platform.OpLessEqual, Values: []any{time.Now()}}).
			And(platform.Cond{Field: "lease", Op: platform.OpLess, Values: []any{time.Now()}})
		due.Order, due.PerPage = "due", 1
		by := func(q platform.Query, order string, desc bool) platform.Query {
			q.Order, q.Desc = order, desc
			return q
		}
		of := func(r *platform.Reader, field string, values ...string) platform.Query {
			return platform.Query{Reader: r, Where: []platform.Cond{platform.InStrings(field, values)}}
		}
		appsList := func(q platform.Query) selected { return selectedFrom(apps, platform.Tx.Apps, q) }
		// The routes between two, as the route publisher goes through them.
		page := func(field string) []platform.Cond {
			return []platform.Cond{{Field: field, Op: platform.OpGreater, Values: []any{"route-500"}},
				{Field: field, Op: platform.OpLessEqual, Values: []any{"route-505"}}}
		}
		for _, test := range []struct {
			name  string
			list  selected
			index string // that the plan must have; empty: the time alone counts
		}{
			{"Apps", appsList(platform.Query{}), "platform_apps_created"},
			{"AppsLatest", appsList(platform.Query{Desc: true}), "platform_apps_created"},
			{"AppsByName", appsList(by(platform.Query{}, "name", false)), "platform_apps_names"},
			{"AppsByUpdate", appsList(by(platform.Query{}, "updated_at", true)), "platform_apps_updated"},
			{"AppsDeep", appsList(platform.Query{Page: 190}), ""},
			{"AppsOfSpace", appsList(platform.Where("space_guid", "space-7")), "platform_apps_space"},
			{"AppsOfSpaceByName", appsList(by(platform.Where("space_guid", "space-7"), "name", false)), "platform_apps_"},
			{"AppOfSpaceByName", appsList(platform.Where("space_guid", "space-7").And(platform.In("name", "app206"))),
				"platform_apps_name"},
			{"AppsOfOrganization", appsList(platform.Where("organization_guid", "org-7")), "platform_spaces_"},
			{"AppsByLabel", appsList(platform.Query{Labels: tier}), "platform_labels_value"},
			{"AppsByGuids", appsList(platform.Where("guid", "app-1", "app-2", "app-3")), "platform_apps"},
			{"AppsForDeveloper", appsList(platform.Query{Reader: developer}), ""},
			{"AppsForDeveloperByName", appsList(by(platform.Query{Reader: developer}, "name", false)), ""},
			{"AppsForManager", appsList(platform.Query{Reader: manager}), ""},
			{"AppsOfSpaceForDeveloper",
				appsList(platform.Query{Reader: developer, Where: []platform.Cond{platform.In("space_guid", "space-7")}}),
				"platform_apps_"},
			{"DeploymentOfApp", selectedFrom(deployments, platform.Tx.Deployments, platform.Where("app_guid", "app-7").
				And(platform.In("status", "ACTIVE"))), lite + "platform_deployments_app"},
			{"NewestRevision", selectedFrom(revisions, platform.Tx.Revisions, by(platform.Where("app_guid", "app-7"), "version",
				true)), lite + "platform_revisions_version"},
			{"RevisionsOfApp", selectedFrom(revisions, platform.Tx.Revisions, by(platform.Where("app_guid", "app-7"),
				"created_at", true)), lite + "platform_revisions_"},
			{"TasksOfApp", selectedFrom(tasks, platform.Tx.Tasks, by(platform.Where("app_guid", "app-7"), "created_at", true)),
				lite + "platform_tasks_"},
			{"ActiveTasks", selectedFrom(tasks, platform.Tx.Tasks,
				platform.Query{Where: []platform.Cond{platform.ActiveTasks()}}), lite + "platform_tasks_state"},
			{"InstancesOfProcess", selectedFrom(instances, platform.Tx.Instances, platform.Where("process_guid", "app-7").
				And(platform.In("state", "RUNNING"))), lite + "platform_instances_process"},
			{"ProcessesOfApp", selectedFrom(processes, platform.Tx.Processes, platform.Where("app_guid", "app-7")),
				"platform_processes_app"},
			{"ProcessesOfSpace", selectedFrom(processes, platform.Tx.Processes, platform.Where("space_guid", "space-7")),
				"platform_processes_space"},
			{"AppsInOneSpace", appsList(platform.Query{Reader: one}), lite + "platform_apps_space"},
			{"ProcessesInOneSpace", selectedFrom(processes, platform.Tx.Processes, platform.Query{Reader: one}),
				lite + "platform_processes_space"},
			{"PackagesInOneSpace", selectedFrom(packages, platform.Tx.Packages, platform.Query{Reader: one}),
				lite + "platform_packages_space"},
			{"BuildsInOneSpace", selectedFrom(builds, platform.Tx.Builds, platform.Query{Reader: one}),
				lite + "platform_builds_space"},
			{"DropletsInOneSpace", selectedFrom(droplets, platform.Tx.Droplets, platform.Query{Reader: one}),
				lite + "platform_droplets_space"},
			{"TasksInOneSpace", selectedFrom(tasks, platform.Tx.Tasks, platform.Query{Reader: one}),
				lite + "platform_tasks_space"},
			{"DeploymentsInOneSpace", selectedFrom(deployments, platform.Tx.Deployments, platform.Query{Reader: one}),
				lite + "platform_deployments_space"},
			{"RevisionsInOneSpace", selectedFrom(revisions, platform.Tx.Revisions, platform.Query{Reader: one}),
				lite + "platform_revisions_space"},
			{"SidecarsInOneSpace", selectedFrom(sidecars, platform.Tx.Sidecars, platform.Query{Reader: one}),
				lite + "platform_sidecars_space"},
			{"RoutesInOneSpace", selectedFrom(routes, platform.Tx.Routes, platform.Query{Reader: one}),
				lite + "platform_routes_space"},
			{"ServiceInstancesInOneSpace", selectedFrom(serviceInstances, platform.Tx.ServiceInstances,
				platform.Query{Reader: one}), lite + "platform_service_instances_space"},
			{"EventsInOneSpace", selectedFrom(auditEvents, platform.Tx.AuditEvents, platform.Query{Reader: one, Desc: true}),
				lite + "platform_audit_events_space"},
			// In a space with many apps, what a reader asks for of one app is found by the app.
			{"PackagesOfAppInOneSpace", selectedFrom(packages, platform.Tx.Packages, of(one, "app_guid", "app-7")),
				lite + "platform_packages_app"},
			{"ProcessesOfAppInOneSpace", selectedFrom(processes, platform.Tx.Processes, of(one, "app_guid", "app-7")),
				lite + "platform_processes_"},
			{"DropletsOfAppInOneSpace", selectedFrom(droplets, platform.Tx.Droplets, of(one, "app_guid", "app-7", "app-8")),
				lite + "platform_droplets_app"},
			{"DropletsOfPackageInOneSpace", selectedFrom(droplets, platform.Tx.Droplets, of(one, "package_guid", "package-7")),
				lite + "platform_droplets_package"},
			{"BuildsOfPackageInOneSpace", selectedFrom(builds, platform.Tx.Builds, of(one, "package_guid", "package-7")),
				lite + "platform_builds_package"},
			{"TasksOfAppInOneSpace", selectedFrom(tasks, platform.Tx.Tasks, of(one, "app_guid", "app-7")),
				lite + "platform_tasks_"},
			{"RevisionsOfAppInOneSpace", selectedFrom(revisions, platform.Tx.Revisions, of(one, "app_guid", "app-7")),
				lite + "platform_revisions_"},
			{"EventsOfTargetInOneSpace", selectedFrom(auditEvents, platform.Tx.AuditEvents, of(one, "target_guid", "app-7")),
				lite + "platform_audit_events_target"},
			{"BindingsOfAppInOneSpace", selectedFrom(serviceBindings, platform.Tx.ServiceBindings, of(one, "app_guid", "app-7")),
				lite + "platform_service_bindings_app"},
			{"BindingsOfInstanceInOneSpace", selectedFrom(serviceBindings, platform.Tx.ServiceBindings,
				of(one, "instance_guid", "instance-7")), lite + "platform_service_bindings_"},
			{"AppsByLabelInOneSpace", appsList(platform.Query{Reader: one, Labels: tier}), lite + "platform_labels_value"},
			{"AppsByGuidInOneSpace", appsList(of(one, "guid", "app-7", "app-8")), lite + "sqlite_autoindex_platform_apps"},
			// One row is found by its guid, and its space by the reader's role in it.
			{"ProcessForManager", selectedFrom(processes, platform.Tx.Processes, of(manager, "guid", "app-7")),
				lite + "sqlite_autoindex_platform_processes"},
			{"AppForDeveloper", appsList(of(developer, "guid", "app-7")), lite + "sqlite_autoindex_platform_apps"},
			{"RouteForDeveloper", selectedFrom(routes, platform.Tx.Routes, of(developer, "guid", "route-7")),
				lite + "sqlite_autoindex_platform_routes"},
			// Whether rows lack their space takes no more than a look at the index.
			{"UnfilledProcesses", selected{
				func(*db.Tx) (statement, error) { return statement{sql: processes.unfilled()}, nil },
				func(tx platform.Tx) (rows, total int, err error) {
					var found bool
					return 0, 0, tx.(*transaction).QueryRow("SELECT EXISTS (" + processes.unfilled() + ")").Scan(&found)
				},
			}, "platform_processes_space"},
			{"ProcessesForDeveloper", selectedFrom(processes, platform.Tx.Processes, platform.Query{Reader: developer}), ""},
			{"RoutesOfApps", selectedFrom(routes, platform.Tx.Routes, platform.Where("app_guid", "app-7", "app-8")),
				"platform_destinations_app"},
			{"RouteByAddress", selectedFrom(routes, platform.Tx.Routes, platform.Where("domain_guid", "domain").
				And(platform.In("host", "HOST77")).And(platform.In("path", ""))), lite + "platform_routes_address"},
			{"RoutesForDeveloper", selectedFrom(routes, platform.Tx.Routes, platform.Query{Reader: developer}), ""},
			{"RoutesPage", selectedFrom(routes, platform.Tx.Routes, by(platform.Query{Where: page("guid")[:1], PerPage: 500},
				"guid", false)), lite + "autoindex_platform_routes"},
			{"DestinationsPage", selectedFrom(destinations, platform.Tx.Destinations, platform.Query{Where: page("route_guid")}),
				"platform_destinations_route"},
			{"BindingsPage", selectedFrom(serviceBindings, platform.Tx.ServiceBindings,
				platform.Query{Where: append(page("route_guid"), platform.In("type", "route"))}),
				lite + "platform_service_bindings_route"},
			{"UnmappedRoutes", selectedFrom(routes, platform.Tx.Routes, platform.Where("unmapped", true).
				And(platform.In("space_guid", "space-7"))), "platform_routes_space"},
			{"PackageOfApp", selectedFrom(packages, platform.Tx.Packages, by(platform.Where("app_guid", "app-7"), "created_at",
				true)), "platform_packages_app"},
			{"DropletsOfPackage", selectedFrom(droplets, platform.Tx.Droplets, platform.Where("package_guid", "package-7")),
				"platform_droplets_package"},
			{"CurrentDroplet", selectedFrom(droplets, platform.Tx.Droplets, platform.Where("app_guid", "app-7").
				And(platform.In("current", true))), "platform_droplets_app"},
			{"EventsOfTarget", selectedFrom(auditEvents, platform.Tx.AuditEvents, by(platform.Where("target_guid", "app-7"),
				"created_at", true)), "platform_audit_events_target"},
			{"EventsForManager", selectedFrom(auditEvents, platform.Tx.AuditEvents, by(platform.Query{Reader: manager},
				"created_at", true)), ""},
			{"RolesOfUser", selectedFrom(roles, platform.Tx.Roles, platform.Where("user_guid", "manager")),
				"platform_roles_once"},
			{"JobsDue", selectedFrom(jobs, platform.Tx.Jobs, due), "platform_jobs_due"},
		} {
			t.Run(test.name, func(t *testing.T) { //nolint:paralleltest // it is timed
				var list statement
				if err := d.View(t.Context(), func(tx *db.Tx) (err error) {
					list, err = test.list.statement(tx)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				index, only := strings.CutPrefix(test.index, lite)
				if plan := explain(t, d, list); !strings.Contains(plan, index) && (!only || d.Dialect() == db.SQLite) {
					t.Errorf("%s does not use %s:\n%s", list.sql, index, plan)
				}
				if slow {
					return
				}
				var took []time.Duration
				var rows, total int
				for range 5 {
					start := time.Now()
					err := s.View(t.Context(), func(tx platform.Tx) (err error) {
						rows, total, err = test.list.list(tx)
						return err
					})
					took = append(took, time.Since(start))
					if err != nil {
						t.Fatal(err)
					}
				}
				t.Logf("%d of %d in %v", rows, total, slices.Min(took))
			})
		}
	})
}

// explain returns how an engine means to run a query.
func explain(t testing.TB, d *db.DB, s statement) string {
	t.Helper()
	var lines []string
	err := d.View(t.Context(), func(tx *db.Tx) (err error) {
		if d.Dialect() == db.Postgres {
			lines, err = db.All(tx, func(row db.Scanner) (line string, err error) {
				err = row.Scan(&line)
				return line, err
			}, "EXPLAIN "+s.sql, s.args...)
			return err
		}
		lines, err = db.All(tx, func(row db.Scanner) (line string, err error) {
			var ignored int
			err = row.Scan(&ignored, &ignored, &ignored, &line)
			return line, err
		}, "EXPLAIN QUERY PLAN "+s.sql, s.args...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}

// TestTexts sees that queries that differ in values only have the same text.
func TestTexts(t *testing.T) {
	t.Parallel()
	text := func(q platform.Query) string {
		s, err := apps.selection(db.SQLite, apps.list, q, scope{})
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(s.sql, "?"); n != len(s.args) {
			t.Errorf("%d arguments for %s", len(s.args), s.sql)
		}
		return s.sql
	}
	guids := make([]string, 5000)
	for i := range guids {
		guids[i] = fmt.Sprint(i)
	}
	in := func(n int) platform.Query {
		return platform.Query{Where: []platform.Cond{platform.InStrings("guid", guids[:n])}}
	}
	for _, same := range [][2]platform.Query{
		{platform.Where("name", "a"), platform.Where("name", "b")},
		{in(5), in(8)}, {in(129), in(256)}, {in(257), in(5000)},
		{{Page: 1, PerPage: 50}, {Page: 7, PerPage: 5000}},
	} {
		if a, b := text(same[0]), text(same[1]); a != b {
			t.Errorf("different texts:\n%s\n%s", a, b)
		}
	}
}

// TestSealedColumns sees that each is declared, or would be lost when the key is
// exchanged.
func TestSealedColumns(t *testing.T) {
	t.Parallel()
	var want []db.SealedColumn
	want = append(want, sealedOf(apps)...)
	want = append(want, sealedOf(revisions)...)
	want = append(want, sealedOf(sidecars)...)
	want = append(want, sealedOf(packages)...)
	want = append(want, sealedOf(droplets)...)
	want = append(want, sealedOf(tasks)...)
	want = append(want, sealedOf(jobs)...)
	want = append(want, sealedOf(serviceBrokers)...)
	want = append(want, sealedOf(serviceInstances)...)
	want = append(want, sealedOf(serviceBindings)...)
	want = append(want,
		db.SealedColumn{Table: "platform_env_groups", Key: "name", Column: "variables"},
		db.SealedColumn{Table: "platform_secrets", Key: "name", Column: "value"},
		db.SealedColumn{Table: "platform_certificates", Key: "name", Column: "value"})
	if !slices.Equal(SealedColumns, want) {
		t.Errorf("declared are %v, want %v", SealedColumns, want)
	}
	for name, n := range map[string]int{
		"organizations": len(sealedOf(organizations)), "spaces": len(sealedOf(spaces)), "users": len(sealedOf(users)),
		"roles":   len(sealedOf(roles)),
		"domains": len(sealedOf(domains)), "routes": len(sealedOf(routes)), "destinations": len(sealedOf(destinations)),
		"processes": len(sealedOf(processes)), "builds": len(sealedOf(builds)),
		"deployments": len(sealedOf(deployments)), "instances": len(sealedOf(instances)),
		"buildpacks":        len(sealedOf(buildpacks)),
		"service offerings": len(sealedOf(serviceOfferings)), "service plans": len(sealedOf(servicePlans)),
		"stacks": len(sealedOf(stacks)), "audit events": len(sealedOf(auditEvents)),
	} {
		if n > 0 {
			t.Errorf("%s have secrets that this test does not know", name)
		}
	}
}

func sealedOf[T any](t *table[T]) (sealed []db.SealedColumn) {
	for _, c := range t.stored {
		if c.sealed {
			sealed = append(sealed, db.SealedColumn{Table: t.name, Key: "guid", Column: c.name})
		}
	}
	return sealed
}
