//go:build unix

package dbtest

import (
	"database/sql"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
)

func testPlaceholders(t *testing.T, s *suite) {
	s.withItems(t)
	s.must(t, func(tx *db.Tx) error {
		got, err := db.One(tx, text, `SELECT /* ? ' */ 'it''s ? ' || CAST(? AS TEXT) || '?' AS "?" -- ?
			WHERE 1 = ?`, "x", 1)
		if err == nil {
			equal(t, "text", got, "it's ? x?")
		}
		return err
	})
	refused := map[string][]any{
		"SELECT ?1":                  {1},
		"SELECT $1":                  {1},
		"SELECT 1; SELECT 2":         nil,
		"SELECT 'x":                  nil,
		"SELECT /* x":                nil,
		"SELECT /* /* x */ */ 1":     nil,
		"SELECT id FROM items":       {1},
		"SELECT CAST(? AS TEXT), ?;": {1},
	}
	for query, args := range refused {
		err := s.db.View(s.ctx, func(tx *db.Tx) error {
			_, err := tx.Exec(query, args...)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), query) {
			t.Errorf("%s: error %v, want one that shows the query", query, err)
		}
	}
	s.must(t, func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM items ; -- the end"); return err })
}

type named string

func testValues(t *testing.T, s *suite) {
	s.withItems(t)
	type doc struct {
		Name string
		Tags map[string]string
	}
	at := time.Date(2026, 11, 14, 12, 30, 1, 123456789, time.FixedZone("x", 3600))
	d := db.JSON[doc]{V: doc{Name: "é", Tags: map[string]string{"a": `"<&>`}}}
	s.must(t, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO items (id, name, count, small, enabled, ratio, at, data) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			named("a"), []byte("bytes"), int64(math.MinInt64), int32(math.MaxInt32), true, 1.0/3, db.Nanos(at), d)
		return err
	})
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		var name string
		var count, ns int64
		var small int
		var enabled bool
		var ratio float64
		got := db.JSON[doc]{V: doc{Name: "to be replaced", Tags: map[string]string{"old": "1"}}}
		var secret sql.NullString
		err := tx.QueryRow("SELECT name, count, small, enabled, ratio, at, data, secret FROM items WHERE id = ? AND "+
			"enabled = ?", "a", true).
			Scan(&name, &count, &small, &enabled, &ratio, &ns, &got, &secret)
		if err != nil {
			return err
		}
		equal(t, "name", name, "bytes")
		equal(t, "count", count, math.MinInt64)
		equal(t, "small", small, math.MaxInt32)
		equal(t, "enabled", enabled, true)
		equal(t, "ratio", ratio, 1.0/3)
		equal(t, "time", db.Time(ns), at.UTC())
		equal(t, "secret", secret.Valid, false)
		if !reflect.DeepEqual(got, d) {
			return fmt.Errorf("JSON %+v, want %+v", got, d)
		}
		return nil
	}))
	equal(t, "zero time", db.Nanos(time.Time{}), 0)
	equal(t, "zero", db.Time(0).IsZero(), true)

	s.must(t, func(tx *db.Tx) error {
		var absent *string
		_, err := tx.Exec("UPDATE items SET data = ?, secret = ?", absent, nil)
		return err
	})
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		got := db.JSON[doc]{V: doc{Name: "x"}}
		err := tx.QueryRow("SELECT data FROM items WHERE data IS NULL").Scan(&got)
		equal(t, "JSON of NULL", got.V.Name, "")
		return err
	}))
	err := s.db.Update(s.ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE items SET at = ?", at)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "Nanos") {
		t.Errorf("a bare time: %v, want to be told of Nanos", err)
	}
}

func testText(t *testing.T, s *suite) {
	s.withItems(t)
	for i, v := range []string{"", "日本語 Ünïcödé", "👩‍👩‍👧‍👦🏳️‍🌈", "e\u0301", "\u00e9", "a\r\n\tb", `"'\%_;--`,
		"\u0001\u001f", "\U0010ffff"} {
		id := fmt.Sprint(i)
		s.must(t, func(tx *db.Tx) error {
			if err := insert(tx, id); err != nil {
				return err
			}
			_, err := tx.Exec("UPDATE items SET data = ? WHERE id = ?", v, id)
			return err
		})
		s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
			got, err := db.One(tx, text, "SELECT data FROM items WHERE id = ? AND data = ?", id, v)
			equal(t, "text", got, v)
			return err
		}))
	}
	for _, v := range []any{"a\x00b", "\xff\xfe", []byte("a\x00"), named("\x00"), db.JSON[string]{V: "fine \x00"},
		sql.NullString{String: "\x00", Valid: true}} {
		err := s.db.Update(s.ctx, func(tx *db.Tx) error {
			_, err := tx.Exec("UPDATE items SET data = ?", v)
			return err
		})
		if _, isJSON := v.(db.JSON[string]); isJSON {
			s.ok(t, err) // JSON escapes it
			continue
		}
		wantErr(t, err, db.ErrText)
	}
}

func testLike(t *testing.T, s *suite) {
	s.withItems(t)
	s.must(t, func(tx *db.Tx) error {
		for _, name := range []string{"Apple", "apple", "50%", "50 percent", "a_b", "acb", `a\b`} {
			if _, err := tx.Exec("INSERT INTO items (id, name) VALUES (?, ?)", name, name); err != nil {
				return err
			}
		}
		return nil
	})
	for pattern, want := range map[string]int64{
		"a%":      4,
		"A%":      1,
		"%PLE":    0,
		`50\%`:    1,
		`a\_b`:    1,
		`a\\b`:    1,
		`a\\%`:    1,
		`%0 per%`: 1,
	} {
		equal(t, "LIKE "+pattern, s.count(t, `SELECT COUNT(*) FROM items WHERE name LIKE ? ESCAPE '\'`, pattern), want)
	}
}

func testOrder(t *testing.T, s *suite) {
	s.withItems(t)
	want := []string{"", "-", "10", "9", "A", "Z", "_", "a", "a-b", "aB", "ab", "z", "Ä", "é", "日", "🙂"}
	s.must(t, func(tx *db.Tx) error {
		for i := range want {
			if _, err := tx.Exec("INSERT INTO items (id, name) VALUES (?, ?)", want[(i*7)%len(want)],
				want[(i*7)%len(want)]); err != nil {
				return err
			}
		}
		return nil
	})
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		for _, order := range []string{"id", `name COLLATE "C"`, `name collate /* bytes */ "C" ASC`} {
			got, err := db.All(tx, text, "SELECT id FROM items ORDER BY "+order)
			if err != nil {
				return err
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("by %s: %q\nwant %q", order, got, want)
			}
		}
		after, err := db.All(tx, text, `SELECT id FROM items WHERE id > ? ORDER BY id`, "z")
		if err == nil && !slices.Equal(after, want[12:]) {
			err = fmt.Errorf("after z: %q", after)
		}
		return err
	}))
}

func testBigValue(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	big := strings.Repeat("0123456789abcde\n", 1<<16) // 1 MiB
	s.must(t, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE items SET data = ?", big)
		return err
	})
	s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
		got, err := db.One(tx, text, "SELECT data FROM items")
		equal(t, "big text", got == big, true)
		return err
	}))
}

// More different texts than any cache of statements holds.
func testManyStatements(t *testing.T, s *suite) {
	s.withItems(t)
	s.insert(t, "a")
	for range 2 {
		s.ok(t, s.db.View(s.ctx, func(tx *db.Tx) error {
			for i := range 700 {
				n, err := db.One(tx, number, fmt.Sprintf("SELECT count + %d FROM items", i))
				if err != nil {
					return err
				}
				equal(t, "number", n, int64(i))
			}
			return nil
		}))
	}
}
