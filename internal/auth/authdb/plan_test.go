//go:build unix

package authdb

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/auth"
	"ingot/internal/auth/scim"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// series is a table of the numbers from 1 to ?.
var series = map[db.Dialect]string{
	db.SQLite:   `(WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < ?) SELECT n FROM s) AS s`,
	db.Postgres: `(SELECT n FROM generate_series(1, CAST(? AS BIGINT)) AS g (n)) AS s`,
}

// populate stores n users and updates the planner's statistics.
func populate(t testing.TB, d *db.DB, n int) {
	t.Helper()
	if err := d.Migrate(t.Context(), Migrations); err != nil {
		t.Fatal(err)
	}
	err := d.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO auth_users (`+userColumns+`, `+userKeys+`)
			SELECT 'id-' || (s.n * 7919 % 1000003), 'User' || s.n, 'uaa', 'x' || s.n, 'Given', 'Family', 'User' || s.n || '@x.org', NULL,
				s.n % 2 = 0, s.n % 2 = 0, 'hash', 0, 1700000000000000000 + s.n * 1000, 1700000000000000000 + s.n * 1000, 0,
				0, 0, 0, 0, 0, NULL, 'user' || s.n, 'user' || s.n || '@x.org'
			FROM `+series[d.Dialect()], n)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Update(t.Context(),
		func(tx *db.Tx) error { _, err := tx.Exec("ANALYZE auth_users"); return err }); err != nil {
		t.Fatal(err)
	}
}

// TestPlans checks that lists of many users stay fast: that the engines use the
// index made for each.
func TestPlans(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		populate(t, d, 20000)
		primary := map[db.Dialect]string{db.SQLite: "sqlite_autoindex_auth_users_1",
			db.Postgres: "auth_users_pkey"}[d.Dialect()]
		var many scim.Expr = scim.Compare{Attr: "id", Op: scim.Eq, Value: "id-0"}
		for i := range 99 {
			many = scim.Or{Left: many, Right: scim.Compare{Attr: "id", Op: scim.Eq, Value: fmt.Sprint("id-", i*7919)}}
		}
		for name, test := range map[string]struct {
			query auth.Query
			index string
		}{
			"Default":     {auth.Query{}, "auth_users_created"},
			"Latest":      {auth.Query{Descending: true}, "auth_users_created"},
			"Active":      {auth.Query{Filter: filter(t, `active eq true`)}, "auth_users_created"},
			"ByID":        {auth.Query{SortBy: "id"}, primary},
			"AfterID":     {auth.Query{SortBy: "id", Filter: filter(t, `id gt "id-5"`)}, primary},
			"ManyIDs":     {auth.Query{Filter: many}, primary},
			"Named":       {auth.Query{Filter: filter(t, `userName eq "User77" and origin eq "uaa"`)}, "auth_users_name"},
			"AnyOrigin":   {auth.Query{Filter: filter(t, `userName eq "User77" or userName eq "USER78"`)}, "auth_users_name"},
			"ByName":      {auth.Query{SortBy: "userName"}, "auth_users_name"},
			"Email":       {auth.Query{Filter: filter(t, `emails.value eq "User77@x.org"`)}, "auth_users_email"},
			"ByEmail":     {auth.Query{SortBy: "email"}, "auth_users_email"},
			"ByEmailDown": {auth.Query{SortBy: "email", Descending: true}, "auth_users_email"},
			"External":    {auth.Query{Filter: filter(t, `externalId eq "x77"`)}, "auth_users_external"},
			"ByModified":  {auth.Query{SortBy: "lastModified", Descending: true}, "auth_users_modified"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test.query.Start, test.query.Count = 1, 100
				page, _, err := users.queries(test.query)
				if err != nil {
					t.Fatal(err)
				}
				if plan := explain(t, d, page); !strings.Contains(plan, test.index) {
					t.Errorf("%s does not use %s:\n%s", page.sql, test.index, plan)
				}
			})
		}
	})
}

func filter(t testing.TB, text string) scim.Expr {
	t.Helper()
	e, err := scim.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// explain returns an engine's query plan.
func explain(t testing.TB, d *db.DB, s statement) string {
	t.Helper()
	var lines []string
	err := d.View(t.Context(), func(tx *db.Tx) (err error) {
		if d.Dialect() == db.Postgres {
			lines, err = db.All(tx, func(row db.Scanner) (line string, err error) { err = row.Scan(&line); return line, err },
				"EXPLAIN "+s.sql, s.args...)
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
