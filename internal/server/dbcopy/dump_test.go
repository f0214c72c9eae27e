//go:build unix

package dbcopy_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/server/dbcopy"
)

// TestDump writes a database to a file and loads it: all types of values, and the tables of
// an older version.
func TestDump(t *testing.T) {
	t.Parallel()
	from := filled(t, db.Postgres)[0]
	var dump bytes.Buffer
	if err := from.View(t.Context(), func(tx *db.Tx) error {
		return dbcopy.Dump(tx, &dump, func(table string) bool { return table == "toy_servers" })
	}); err != nil {
		t.Fatal(err)
	}
	if rows, err := dbcopy.CheckDump(bytes.NewReader(dump.Bytes())); err != nil || rows != messages+3 {
		t.Errorf("the dump has %d rows, %v, want %d", rows, err, messages+3)
	}
	versions := map[string]int64{"toy": 1, "mail": 1}
	to := dbtest.New(t, db.Postgres)
	refused := errors.New("refused")
	load := func(text []byte, err error) error {
		return dbcopy.Load(t.Context(), options(nil, to), versions, bytes.NewReader(text), func(*db.Tx) error { return err })
	}
	for name, tc := range map[string]struct {
		text []byte
		want string
	}{
		"cut off": {dump.Bytes()[:dump.Len()-1], "unexpected EOF"},
		"half":    {dump.Bytes()[:dump.Len()/2], "unexpected EOF"},
		"changed": {bytes.Replace(dump.Bytes(), []byte("xxx"), []byte("xyx"), 1), "want"},
		"empty":   {[]byte("Z"), "it is not complete"},
		"last":    {dump.Bytes(), "refused"},
	} {
		if err := load(tc.text, refused); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if got := count(t, to, "SELECT COUNT(*) FROM toy_things"); got != 0 {
			t.Errorf("%s: %d rows are left, want none", name, got)
		}
	}
	if err := load(dump.Bytes(), nil); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"SELECT COUNT(*) FROM mail_messages WHERE LENGTH(text) = id % 1000":                    messages,
		"SELECT COUNT(*) FROM toy_things WHERE id = 'a' AND n < 0 AND ok AND small IS NULL":    1,
		"SELECT COUNT(*) FROM toy_things WHERE n = 9223372036854775807 AND NOT ok AND x = 0.1": 1,
		"SELECT COUNT(*) FROM toy_things WHERE later = 'new'":                                  2,
		"SELECT COUNT(*) FROM toy_numbers WHERE next = 4711":                                   1,
		"SELECT COUNT(*) FROM toy_servers":                                                     0,
	} {
		if got := count(t, to, query); got != want {
			t.Errorf("%s is %d, want %d", query, got, want)
		}
	}
	var full *dbcopy.NotEmptyError
	if err := load(dump.Bytes(), nil); !errors.As(err, &full) {
		t.Errorf("again: %v, want that it has rows", err)
	}
}
