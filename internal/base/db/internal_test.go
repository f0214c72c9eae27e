package db

import (
	"database/sql/driver"
	"errors"
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
	if n := len(r.known.index); n != knownStatements {
		t.Errorf("%d statements are known, want %d", n, knownStatements)
	}
}

func TestLRU(t *testing.T) {
	t.Parallel()
	c := newLRU[int](2)
	c.put("a", 1)
	c.put("b", 2)
	c.get("a")
	if v, was := c.put("c", 3); !was || v != 2 {
		t.Errorf("evicted %d, %v; want b", v, was)
	}
	if v, was := c.put("a", 4); !was || v != 1 {
		t.Errorf("replaced %d, %v; want the old a", v, was)
	}
	if _, ok := c.get("b"); ok {
		t.Error("b is still there")
	}
	if v, ok := c.take("a"); !ok || v != 4 {
		t.Errorf("took %d, %v", v, ok)
	}
	var left []int
	c.clear(func(v int) { left = append(left, v) })
	if len(left) != 1 || left[0] != 3 || len(c.index) != 0 {
		t.Errorf("drained %v, want c", left)
	}
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
