package db

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/quick"
)

func TestRebind(t *testing.T) {
	t.Parallel()
	tests := []struct{ in, postgres, sqlite string }{
		{"a = ? AND b=?", "a = $1 AND b=$2", "a = ? AND b=?"},
		{"'?' ? '''?'", "'?' $1 '''?'", "'?' ? '''?'"},
		{`"a?""b" ?`, `"a?""b" $1`, `"a?""b" ?`},
		{"-- ?\n?", "-- ?\n$1", "-- ?\n?"},
		{"? -- it's", "$1 -- it's", "? -- it's"},
		{"/* ' ? */ ?", "/* ' ? */ $1", "/* ' ? */ ?"},
		{`E'\'?' ?`, `E'\'?' $1`, ""},
		{`'\' ?`, `'\' $1`, `'\' ?`},
		{"$$ ? $$ ?", "$$ ? $$ $1", ""},
		{"$a_1$ ? $$ $a_1$ ?", "$a_1$ ? $$ $a_1$ $1", ""},
		{"a$b ?", "a$b $1", "a$b ?"},
		{"a ?? b", "a ? b", "error"},
		{"??? x", "?$1 x", "error"},
		{"(?,?)", "($1,$2)", "(?,?)"},
		{"x < ? LIMIT ? OFFSET ?", "x < $1 LIMIT $2 OFFSET $3", "x < ? LIMIT +? OFFSET ?"},
		{`x COLLATE "C" DESC, "C"`, `x COLLATE "C" DESC, "C"`, `x COLLATE BINARY DESC, "C"`},
		{"é?ü", "é$1ü", "é?ü"},
		{"SELECT 1; ", "SELECT 1; ", "SELECT 1; "},
		{"?1", "error", "error"},
		{"$2", "error", "error"},
		{"'a", "error", "error"},
		{`"a`, "error", "error"},
		{"/* a", "error", "error"},
		{"$x$ a", "error", "error"},
		{"a; b", "error", "error"},
	}
	for _, tt := range tests {
		for dialect, want := range map[Dialect]string{Postgres: tt.postgres, SQLite: tt.sqlite} {
			got := rebind(tt.in, dialect)
			switch {
			case want == "": // means nothing on this engine
			case want == "error":
				if got.err == nil {
					t.Errorf("%s for %v became %s, want an error", tt.in, dialect, got.text)
				}
			case got.err != nil || got.text != want:
				t.Errorf("%s for %v became %s, %v; want %s", tt.in, dialect, got.text, got.err, want)
			}
		}
	}
}

func TestScanLosesNothing(t *testing.T) {
	t.Parallel()
	joined := func(s string) bool {
		var b strings.Builder
		for _, tok := range scan(s) {
			b.WriteString(tok.text)
		}
		return b.String() == s
	}
	if err := quick.Check(joined, nil); err != nil {
		t.Error(err)
	}
}

func FuzzRebind(f *testing.F) {
	f.Add("SELECT '?', ?, $$?$$ -- ?\n/* ? */")
	f.Add(`E'\`)
	f.Fuzz(func(t *testing.T, query string) {
		s := rebind(query, Postgres)
		if s.err != nil {
			return
		}
		if lite := rebind(query, SQLite); lite.err == nil && lite.args != s.args {
			t.Errorf("%q has %d or %d placeholders", query, s.args, lite.args)
		}
	})
}

func TestRebinderForgets(t *testing.T) {
	t.Parallel()
	r := newRebinder(Postgres)
	for i := range knownStatements + 10 {
		r.rebind(strings.Repeat("x", i) + "?")
	}
	r.known.CleanUp()
	if n := r.known.EstimatedSize(); n != knownStatements {
		t.Errorf("%d statements are known, want %d", n, knownStatements)
	}
}

// Statements are closed once: when they are evicted or replaced, after an error, and with
// their connection, but never while they are in use.
func TestStatements(t *testing.T) {
	t.Parallel()
	const limit = 4
	fake := &fakeDriver{}
	stmts, err := newStatements(limit)
	if err != nil {
		t.Fatal(err)
	}
	c := &liteConn{liteDriverConn: fake, stmts: stmts}
	random := rand.New(rand.NewPCG(1, 2))
	type use struct {
		query string
		stmt  *liteStmt
	}
	var uses []use // that are not done
	for range 10_000 {
		if len(uses) < 3 && random.IntN(2) == 0 {
			query := fmt.Sprint("SELECT ", random.IntN(2*limit))
			stmt, err := c.statement(t.Context(), query)
			if err != nil {
				t.Fatal(err)
			}
			if got := stmt.liteDriverStmt.(*fakeStmt).query; got != query {
				t.Fatalf("the statement is %q, want %q", got, query)
			}
			uses = append(uses, use{query, stmt})
		} else if len(uses) > 0 {
			i := random.IntN(len(uses))
			var err error
			if random.IntN(20) == 0 {
				err = errors.New("failed")
			}
			c.done(uses[i].query, uses[i].stmt, err)
			uses = slices.Delete(uses, i, i+1)
		}
		for _, u := range uses {
			if u.stmt.liteDriverStmt.(*fakeStmt).closed > 0 {
				t.Fatalf("%q was closed while it was in use", u.query)
			}
		}
		if n := fake.open() - len(uses); n > limit {
			t.Fatalf("%d statements are kept, want at most %d", n, limit)
		}
	}
	if n := len(fake.prepared); n < 100 || n > 9_000 {
		t.Errorf("%d statements were prepared, want hits and misses", n)
	}
	for _, u := range uses {
		c.done(u.query, u.stmt, nil)
	}
	if err := c.Close(); err != nil || fake.open() != 0 {
		t.Errorf("%d statements are left, error %v", fake.open(), err)
	}
	for _, stmt := range fake.prepared {
		if stmt.closed != 1 {
			t.Errorf("%q was closed %d times", stmt.query, stmt.closed)
		}
	}
}

// fakeDriver is a connection whose statements only count how often they were closed.
type fakeDriver struct {
	liteDriverConn
	prepared []*fakeStmt
}

func (d *fakeDriver) PrepareContext(_ context.Context, query string) (driver.Stmt, error) {
	stmt := &fakeStmt{query: query}
	d.prepared = append(d.prepared, stmt)
	return stmt, nil
}

func (d *fakeDriver) Close() error { return nil }

func (d *fakeDriver) open() (n int) {
	for _, stmt := range d.prepared {
		if stmt.closed == 0 {
			n++
		}
	}
	return n
}

type fakeStmt struct {
	liteDriverStmt
	query  string
	closed int
}

func (s *fakeStmt) Close() error {
	s.closed++
	return nil
}

func TestDialectString(t *testing.T) {
	t.Parallel()
	for d, want := range map[Dialect]string{SQLite: "sqlite", Postgres: "postgres", 0: "Dialect(0)"} {
		if d.String() != want {
			t.Errorf("%d is %s, want %s", int(d), d, want)
		}
	}
}

// A connection whose transaction did not end cleanly must not be used again.
func TestBrokenConnectionLeaves(t *testing.T) {
	t.Parallel()
	c := &liteConn{}
	if err := (liteTx{failingTx{}, c}).Rollback(); err == nil || !c.broken || c.IsValid() {
		t.Errorf("error %v, broken %v", err, c.broken)
	}
}

type failingTx struct{ driver.Tx }

func (failingTx) Rollback() error { return errors.New("disk on fire") }
