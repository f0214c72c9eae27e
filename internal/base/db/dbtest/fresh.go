package dbtest

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"ingot/internal/base/db"
	"ingot/internal/base/testkit"
)

// Fresh checks that file, the db.FreshFile of m in the source, is what the migrations of m make, and that a
// database that is created with it is the same; with update it writes the file first.
func Fresh(t *testing.T, m db.Migrations, file string, update bool) {
	t.Helper()
	only := fstest.MapFS{}
	names, err := fs.Glob(m.Files, "*.sql")
	testkit.Must(t, err)
	for _, name := range names {
		content, err := fs.ReadFile(m.Files, name)
		testkit.Must(t, err)
		only[name] = &fstest.MapFile{Data: content}
	}
	want := dump(t, db.Migrations{Name: m.Name, Files: only})
	if update {
		testkit.Must(t, os.WriteFile(file, []byte(want), 0o600))
		testkit.Must(t, os.Chmod(file, 0o644)) //nolint:gosec // it is source
	}
	content, err := os.ReadFile(file)
	testkit.Must(t, err)
	if string(content) != want {
		t.Fatalf("%s is not what the migrations make: write it again with -update", file)
	}
	only[db.FreshFile] = &fstest.MapFile{Data: content}
	if got := dump(t, db.Migrations{Name: m.Name, Files: only}); got != want {
		t.Errorf("%s makes\n%s\nand the migrations\n%s", file, got, want)
	}
}

// dump returns statements for all tables, indexes and rows of a new SQLite database with m.
func dump(t *testing.T, m db.Migrations) string {
	t.Helper()
	address := "sqlite:" + filepath.Join(t.TempDir(), "dump.db")
	migrate(t, address, m)
	d := Open(t, address)
	var out strings.Builder
	out.WriteString("-- Written from the migrations; see dbtest.Fresh.\n")
	err := d.View(context.Background(), func(tx *db.Tx) error {
		tables, err := db.All(tx, text,
			"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid")
		if err != nil {
			return err
		}
		made, err := db.All(tx, text,
			"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "+
				"ORDER BY type <> 'table', rowid")
		if err != nil {
			return err
		}
		for _, sql := range made {
			out.WriteString(sql + ";\n")
		}
		for _, table := range tables {
			if err := dumpRows(tx, &out, m.Name, table); err != nil {
				return err
			}
		}
		return nil
	})
	testkit.Must(t, err)
	return out.String()
}

// dumpRows writes the rows of a table, those of the applied migrations without their time.
func dumpRows(tx *db.Tx, out *strings.Builder, name, table string) error {
	columns := []string{"version_id", "is_applied"}
	if table != name+"_migrations" {
		var err error
		columns, err = db.All(tx, text,
			"SELECT name FROM pragma_table_info('"+table+"') ORDER BY cid")
		if err != nil {
			return err
		}
	}
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = "quote(" + c + ")"
	}
	rows, err := db.All(tx, text,
		"SELECT "+strings.Join(quoted, " || ', ' || ")+" FROM "+table+" ORDER BY 1")
	for _, values := range rows {
		fmt.Fprintf(out, "INSERT INTO %s (%s) VALUES (%s);\n", table, strings.Join(columns, ", "), values)
	}
	return err
}
