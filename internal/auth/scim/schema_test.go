package scim_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite"
	"pgregory.net/rapid"

	"ingot/internal/auth/scim"
)

var users = scim.Schema{
	"id":           {SQL: "id", Kind: scim.Text},
	"username":     {SQL: "username", Kind: scim.TextFold},
	"active":       {SQL: "active", Kind: scim.Bool},
	"meta.created": {SQL: "created_at", Kind: scim.Time},
}

func mustParse(tb testing.TB, filter string) scim.Expr {
	tb.Helper()
	e, err := scim.Parse(filter)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func TestWhere(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 1, 31, 12, 0, 0, 5e6, time.UTC).UnixNano()
	tests := []struct {
		in, sql string
		args    []any
	}{
		// Every operator, plain and negated.
		{`id eq "A"`, `id = ?`, []any{"A"}},
		{`id ne "A"`, `(id <> ? OR id IS NULL)`, []any{"A"}},
		{`not (id ne "A")`, `id = ?`, []any{"A"}},
		{`id co "A"`, `id LIKE ? ESCAPE '\'`, []any{"%A%"}},
		{`id sw "A"`, `id LIKE ? ESCAPE '\'`, []any{"A%"}},
		{`id ew "A"`, `id LIKE ? ESCAPE '\'`, []any{"%A"}},
		{`not (id ew "A")`, `(id NOT LIKE ? ESCAPE '\' OR id IS NULL)`, []any{"%A"}},
		{`id gt "A"`, `id > ?`, []any{"A"}},
		{`id ge "A"`, `id >= ?`, []any{"A"}},
		{`id lt "A"`, `id < ?`, []any{"A"}},
		{`id le "A"`, `id <= ?`, []any{"A"}},
		{`not (id gt "A")`, `(id <= ? OR id IS NULL)`, []any{"A"}},
		{`not (id ge "A")`, `(id < ? OR id IS NULL)`, []any{"A"}},
		{`not (id lt "A")`, `(id >= ? OR id IS NULL)`, []any{"A"}},
		{`not (id le "A")`, `(id > ? OR id IS NULL)`, []any{"A"}},
		{`id pr`, `id IS NOT NULL`, nil},
		{`not (id pr)`, `id IS NULL`, nil},
		{`id eq null`, `id IS NULL`, nil},
		{`id ne null`, `id IS NOT NULL`, nil},

		// Kinds.
		{`userName eq "MarissÀ"`, `LOWER(username) = ?`, []any{"marissÀ"}},
		{`userName ne "A"`, `(LOWER(username) <> ? OR username IS NULL)`, []any{"a"}},
		{`userName sw "Ab"`, `LOWER(username) LIKE ? ESCAPE '\'`, []any{"ab%"}},
		{`userName pr`, `username IS NOT NULL`, nil},
		{`active eq true`, `active = ?`, []any{true}},
		{`active ne false`, `(active <> ? OR active IS NULL)`, []any{false}},
		{`meta.created ge "2026-01-31T12:00:00.005Z"`, `created_at >= ?`, []any{noon}},
		{`meta.created lt "2026-01-31T13:00:00.005+01:00"`, `created_at < ?`, []any{noon}},

		// What the user types stays out of the statement.
		{`id co "100%_\\'; --"`, `id LIKE ? ESCAPE '\'`, []any{`%100\%\_\\'; --%`}},
		{`id eq "' OR 1=1 --"`, `id = ?`, []any{"' OR 1=1 --"}},

		// Structure.
		{`id pr and active pr or userName pr`, `((id IS NOT NULL AND active IS NOT NULL) OR username IS NOT NULL)`, nil},
		{`id pr and (active pr or userName pr)`, `(id IS NOT NULL AND (active IS NOT NULL OR username IS NOT NULL))`, nil},
		{`not (id pr and active pr)`, `(id IS NULL OR active IS NULL)`, nil},
		{`not (id pr or not (active pr))`, `(id IS NULL AND active IS NOT NULL)`, nil},
		{`id pr or (active pr or userName pr)`, `(id IS NOT NULL OR active IS NOT NULL OR username IS NOT NULL)`, nil},

		// IN lists.
		{`id eq "a" or id eq "b"`, `id IN (?,?)`, []any{"a", "b"}},
		{`id eq "a" or id eq "a"`, `id = ?`, []any{"a"}},
		{`id eq "a" or (ID eq "b" or (id eq "c" or id eq "a"))`, `id IN (?,?,?)`, []any{"a", "b", "c"}},
		{`userName eq "A" or userName eq "b"`, `LOWER(username) IN (?,?)`, []any{"a", "b"}},
		{
			`id eq "a" or userName eq "x" or id eq "b" or active pr or userName eq "y"`,
			`(id IN (?,?) OR LOWER(username) IN (?,?) OR active IS NOT NULL)`,
			[]any{"a", "b", "x", "y"},
		},
		{`(id eq "a" or id eq "b") and active eq true`, `(id IN (?,?) AND active = ?)`, []any{"a", "b", true}},
		{`id eq "a" and id eq "b"`, `(id = ? AND id = ?)`, []any{"a", "b"}},
		{`id ne "a" and id ne "b"`, `(id NOT IN (?,?) OR id IS NULL)`, []any{"a", "b"}},
		{`id ne "a" or id ne "b"`, `((id <> ? OR id IS NULL) OR (id <> ? OR id IS NULL))`, []any{"a", "b"}},
		{`not (id eq "a" or id eq "b")`, `(id NOT IN (?,?) OR id IS NULL)`, []any{"a", "b"}},
		{`not (id ne "a" and id ne "b")`, `id IN (?,?)`, []any{"a", "b"}},
		{`id eq "a" or id eq null`, `(id = ? OR id IS NULL)`, []any{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.in, func(t *testing.T) {
			t.Parallel()
			sql, args, err := users.Where(mustParse(t, tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if sql != tt.sql {
				t.Errorf("got  %s\nwant %s", sql, tt.sql)
			}
			if diff := cmp.Diff(tt.args, args); diff != "" {
				t.Errorf("args (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhereLargeLookup(t *testing.T) {
	t.Parallel()
	terms := make([]string, scim.MaxComparisons)
	want := make([]any, len(terms))
	for i := range terms {
		id := fmt.Sprintf("user-%04d", i)
		terms[i], want[i] = fmt.Sprintf("id eq %q", id), id
	}
	sql, args, err := users.Where(mustParse(t, strings.Join(terms, " or ")))
	if err != nil {
		t.Fatal(err)
	}
	if wantSQL := "id IN (?" + strings.Repeat(",?", len(terms)-1) + ")"; sql != wantSQL {
		t.Errorf("got %s", sql)
	}
	if diff := cmp.Diff(want, args); diff != "" {
		t.Errorf("args (-want +got):\n%s", diff)
	}
}

func TestWhereErrors(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, in, want string }{
		{"AttributeUnknown", `id pr and Shoe.Size eq 9`,
			`unknown attribute "shoe.size": a filter here may use active, id, meta.created, username`},
		{"AttributeUnknownInList", `id eq "a" or nope eq "b"`,
			`unknown attribute "nope": a filter here may use active, id, meta.created, username`},
		{"TextNumber", `id eq 5`, `attribute "id": expected a string in quotes, found a number`},
		{"TextBool", `userName co true`, `attribute "username": expected a string in quotes, found a boolean`},
		{"TextNullOrder", `id gt null`, `attribute "id": null can be compared with "eq" and "ne" only, not with "gt"`},
		{"BoolString", `active eq "true"`, `attribute "active": expected true or false, found a string`},
		{"BoolOrder", `active gt true`,
			`attribute "active": a boolean can be compared with "eq" and "ne" only, not with "gt"`},
		{"TimeNumber", `meta.created gt 17`, `attribute "meta.created": expected a time in quotes, found a number`},
		{"TimeText", `meta.created gt "yesterday"`,
			`attribute "meta.created": "yesterday" is not a time such as 2026-01-31T12:00:00.000Z`},
		{"TimeSearch", `meta.created sw "2026"`, `attribute "meta.created": a time cannot be compared with "sw"`},
		{"TimeRange", `meta.created gt "9999-01-01T00:00:00Z"`,
			`attribute "meta.created": the time lies outside the years 1678 to 2261`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sql, args, err := users.Where(mustParse(t, tt.in))
			if err == nil || err.Error() != tt.want {
				t.Fatalf("got  %v\nwant %s", err, tt.want)
			}
			if sql != "" || args != nil {
				t.Errorf("SQL came with the error: %s %v", sql, args)
			}
			var attr *scim.AttributeError
			var value *scim.ValueError
			if !errors.As(err, &attr) && !errors.As(err, &value) {
				t.Errorf("the error is a %T", err)
			}
		})
	}
}

// Trees built by hand can be malformed in ways that parsed ones cannot.
func TestMalformedTrees(t *testing.T) {
	t.Parallel()
	ok := pr("id")
	for name, e := range map[string]scim.Expr{
		"Nil":        nil,
		"NilNot":     scim.Not{},
		"NilAnd":     scim.And{},
		"NilOr":      scim.Or{},
		"NilLeft":    scim.And{Right: ok},
		"NilRight":   scim.Or{Left: ok},
		"Pointer":    &scim.Not{X: ok},
		"NoOperator": scim.Compare{Attr: "id"},
		"ValueType":  scim.Compare{Attr: "id", Op: scim.Eq, Value: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if sql, _, err := users.Where(e); err == nil {
				t.Errorf("Where gave %s", sql)
			}
			if got, err := scim.Matches(e, func(string) any { return "x" }); err == nil || got {
				t.Errorf("Matches gave %v, %v", got, err)
			}
			if e != nil {
				_ = e.String() // must not panic
			}
		})
	}
	bad := scim.Schema{"id": {SQL: "id", Kind: 99}}
	if _, _, err := bad.Where(eq("id", "x")); err == nil || !strings.Contains(err.Error(), "Kind(99)") {
		t.Errorf("unknown kind: %v", err)
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	row := map[string]any{
		"id": "Ab%", "username": scim.Fold("MarissÀ"), "active": true,
		"meta.created": time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC),
	}
	tests := map[string]bool{
		`id eq "Ab%"`:                   true,
		`ID eq "ab%"`:                   false,
		`id co "b"`:                     true,
		`id co "B"`:                     false,
		`id sw "A"`:                     true,
		`id ew "%"`:                     true,
		`id co "A%"`:                    false,
		`id gt "Aa"`:                    true,
		`id le "Aa"`:                    false,
		`id ne null`:                    true,
		`id eq null`:                    false,
		`userName eq "mARISSÀ"`:         true,
		`userName eq "marissà"`:         false,
		`userName sw "MAR"`:             true,
		`active eq true`:                true,
		`active ne true`:                false,
		`active pr and not (active pr)`: false,
		`active pr or not (active pr)`:  true,
		`absent pr`:                     false,
		`absent eq "x"`:                 false,
		`absent ne "x"`:                 true,
		`absent lt "x"`:                 false,
		`not (absent lt "x")`:           true,
		`absent eq null`:                true,
		`absent ne null`:                false,
		`meta.created pr`:               true,
		`meta.created gt "2026-01-31T12:00:00+01:00"`: true,
		`meta.created ge "2026-01-31T12:00:00Z"`:      true,
		`meta.created lt "2026-01-31T12:00:00Z"`:      false,
		`meta.created eq "2026-01-31T13:00:00+01:00"`: true,
	}
	for in, want := range tests {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			got, err := scim.Matches(mustParse(t, in), func(attr string) any { return row[attr] })
			if err != nil {
				t.Fatal(err)
			}
			if got != want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestMatchesErrors(t *testing.T) {
	t.Parallel()
	for in, value := range map[string]any{
		`a eq 5`:               "text",
		`a pr or a eq 5`:       "text", // not hidden by the left side
		`a co "x"`:             true,
		`a co "2026"`:          time.Now(),
		`a eq "x" and a pr`:    false,
		`a gt null`:            nil,
		`a eq "x" or a pr`:     struct{}{},
		`not (a eq "Tuesday")`: time.Now(),
	} {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			got, err := scim.Matches(mustParse(t, in), func(string) any { return value })
			if err == nil || got {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestKindString(t *testing.T) {
	t.Parallel()
	for k, want := range map[scim.Kind]string{
		scim.Text: "text", scim.TextFold: "text", scim.Bool: "boolean", scim.Time: "time", 9: "Kind(9)",
	} {
		if k.String() != want {
			t.Errorf("Kind %d prints %q, want %q", uint8(k), k, want)
		}
	}
}

// user is a row; nil fields are NULL.
type user struct {
	ID       *string
	UserName *string
	Active   *bool
	Created  *time.Time
}

func (u user) get(attr string) any {
	switch {
	case attr == "id" && u.ID != nil:
		return *u.ID
	case attr == "username" && u.UserName != nil:
		return scim.Fold(*u.UserName)
	case attr == "active" && u.Active != nil:
		return *u.Active
	case attr == "meta.created" && u.Created != nil:
		return *u.Created
	default:
		return nil
	}
}

// openSQLite gives the test its own database with an empty users table.
func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	db.SetMaxOpenConns(1) // each connection would have its own memory
	for _, stmt := range []string{
		`PRAGMA case_sensitive_like=ON`,
		`CREATE TABLE users (n INTEGER PRIMARY KEY, id TEXT, username TEXT, active BOOLEAN, created_at BIGINT)`,
	} {
		if _, err := db.ExecContext(t.Context(), stmt); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// selectRows returns the numbers of the rows that a condition selects.
func selectRows(ctx context.Context, db *sql.DB, where string, args []any) ([]int, error) {
	rows, err := db.QueryContext(ctx, `SELECT n FROM users WHERE n >= 0 AND `+where+` ORDER BY n`, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []int
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	return out, rows.Err()
}

// Few characters, so that random rows and random filters often meet; among
// them all that LIKE, LOWER and quoting treat specially. Rapid prefers the first.
var genText = rapid.StringOfN(rapid.RuneFrom([]rune(`_a%A\éÉ'"?`)), 0, 3, -1)

var genTime = rapid.Map(rapid.Int64Range(-2, 2), func(n int64) time.Time {
	return time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).Add(time.Duration(n))
})

var genUser = rapid.Custom(func(t *rapid.T) user {
	return user{
		ID:       rapid.Ptr(genText, true).Draw(t, "id"),
		UserName: rapid.Ptr(genText, true).Draw(t, "username"),
		Active:   rapid.Ptr(rapid.Bool(), true).Draw(t, "active"),
		Created:  rapid.Ptr(genTime, true).Draw(t, "created"),
	}
})

// genCompare draws a comparison that fits the users schema.
var genCompare = rapid.Custom(func(t *rapid.T) scim.Expr {
	equality := []scim.Op{scim.Eq, scim.Ne}
	order := []scim.Op{scim.Eq, scim.Ne, scim.Gt, scim.Ge, scim.Lt, scim.Le}
	text := append(slices.Clone(order), scim.Co, scim.Sw, scim.Ew)

	c := scim.Compare{Attr: rapid.SampledFrom([]string{"id", "username", "active", "meta.created"}).Draw(t, "attr")}
	switch form := rapid.IntRange(0, 9).Draw(t, "form"); {
	case form == 0:
		c.Op = scim.Pr
	case form == 1:
		c.Op = rapid.SampledFrom(equality).Draw(t, "op")
	case c.Attr == "active":
		c.Op = rapid.SampledFrom(equality).Draw(t, "op")
		c.Value = rapid.Bool().Draw(t, "value")
	case c.Attr == "meta.created":
		c.Op = rapid.SampledFrom(order).Draw(t, "op")
		c.Value = genTime.Draw(t, "value").Format(time.RFC3339Nano)
	default:
		c.Op = rapid.SampledFrom(text).Draw(t, "op")
		c.Value = genText.Draw(t, "value")
	}
	return c
})

func TestWhereAgreesWithMatches(t *testing.T) {
	t.Parallel()
	db := openSQLite(t)
	ctx := t.Context()
	filters := rapid.SliceOfN(genExpr(genCompare, 4), 20, 40)
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		table := rapid.SliceOfN(genUser, 1, 12).Draw(t, "rows")
		if _, err := db.ExecContext(ctx, `DELETE FROM users`); err != nil {
			t.Fatal(err)
		}
		for n, u := range table {
			var created *int64
			if u.Created != nil {
				created = new(u.Created.UnixNano())
			}
			if _, err := db.ExecContext(ctx, `INSERT INTO users VALUES (?,?,?,?,?)`, n, u.ID, u.UserName, u.Active,
				created); err != nil {
				t.Fatal(err)
			}
		}
		for _, e := range filters.Draw(t, "filters") {
			var want []int
			for n, u := range table {
				ok, err := scim.Matches(e, u.get)
				if err != nil {
					t.Fatalf("%s: %v", e, err)
				}
				if ok {
					want = append(want, n)
				}
			}
			where, args, err := users.Where(e)
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			got, err := selectRows(ctx, db, where, args)
			if err != nil {
				t.Fatalf("selecting %s\n%s: %v", e, where, err)
			}
			if !slices.Equal(want, got) {
				t.Fatalf("%s\n%s %q\nMatches selects rows %v, SQLite %v", e, where, args, want, got)
			}
			found += len(got)
		}
	})
	if found == 0 {
		t.Error("no filter matched anything: the test has lost its force")
	}
}

// The largest filters must stay within SQLite's limits on depth and arguments.
func TestWhereRunsAtTheBounds(t *testing.T) {
	t.Parallel()
	db := openSQLite(t)
	for name, filter := range map[string]string{
		"Or":       strings.Repeat(`id ne "a" or `, scim.MaxComparisons-1) + `id pr`,
		"And":      strings.Repeat(`not (userName co "a") and `, scim.MaxComparisons-1) + `id pr`,
		"Nesting":  strings.Repeat(`id gt "a" and (userName lt "b" or (`, 25) + `id pr` + strings.Repeat(`))`, 25),
		"Pattern":  `id co "` + strings.Repeat("%", scim.MaxLength-8) + `"`,
		"InLookup": strings.Repeat(`id eq "a" or `, scim.MaxComparisons-1) + `id eq "b"`,
	} {
		// One connection: the cases take turns.
		where, args, err := users.Where(mustParse(t, filter))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := selectRows(t.Context(), db, where, args); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func ExampleSchema_Where() {
	schema := scim.Schema{
		"id":       {SQL: "id", Kind: scim.Text},
		"username": {SQL: "username", Kind: scim.TextFold},
		"active":   {SQL: "active", Kind: scim.Bool},
	}
	e, err := scim.Parse(`(id eq "1" or id eq "2" or userName sw "Mar") and active eq true`)
	if err != nil {
		fmt.Println(err)
		return
	}
	sql, args, err := schema.Where(e)
	fmt.Println(sql)
	fmt.Println(args, err)
	// Output:
	// ((id IN (?,?) OR LOWER(username) LIKE ? ESCAPE '\') AND active = ?)
	// [1 2 mar% true] <nil>
}
