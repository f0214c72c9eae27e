package dbcopy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"ingot/internal/base/db"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

// Describe returns a text about the databases of a server, which may be running: their kind, the
// versions of their tables and the number of rows, by state where rows have one. It contains no values
// of other columns. What was found before an error is returned with it.
func (t Tables) Describe(ctx context.Context, dataDir, databaseURL string, log *slog.Logger) ([]byte, error) {
	url, err := databases.Existing(dataDir, databaseURL)
	if err != nil {
		return nil, err
	}
	urls := slices.Compact([]string{url, databases.NotificationsURL(url, dataDir)})
	var s steps.Stack
	defer s.Unwind()
	var text []byte
	for _, one := range urls {
		text = fmt.Appendf(text, "%s\n", databases.Describe(one))
		if err := ownFile(one); err != nil {
			return text, err
		}
		d, err := s.OpenDB(ctx, db.Options{URL: one, MaxConns: 1, Log: log})
		if err != nil {
			return text, err
		}
		if text, err = t.describe(ctx, d, text); err != nil {
			return text, err
		}
	}
	return text, nil
}

// ownFile refuses an SQLite file of another user: opening it could leave files beside it that
// the server's user cannot write.
func ownFile(url string) error {
	path, isFile := strings.CutPrefix(url, "sqlite:")
	if !isFile {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to the user with the id %d: run the command as that user to include it", path, s.Uid)
	}
	return nil
}

func (t Tables) describe(ctx context.Context, d *db.DB, text []byte) ([]byte, error) {
	for _, m := range t.Schemas(d.Dialect()) {
		found, known, err := d.SchemaVersion(ctx, m)
		if err != nil {
			return text, err
		}
		if found > 0 {
			text = fmt.Appendf(text, "%-40s version %d, this program knows %d\n", m.Name, found, known)
		}
	}
	var names []string
	err := d.View(ctx, func(tx *db.Tx) (err error) {
		names, err = tables(tx)
		return err
	})
	if err != nil {
		return text, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_migrations") {
			continue
		}
		var rows []string
		// A transaction each: one would keep its snapshot, and a server's log from being emptied.
		err := d.View(ctx, func(tx *db.Tx) (err error) {
			rows, err = countRows(tx, name)
			return err
		})
		if err != nil {
			return text, fmt.Errorf("table %s: %w", name, err)
		}
		text = fmt.Appendf(text, "%-40s %s\n", name, strings.Join(rows, ", "))
	}
	return text, nil
}

// countRows counts the rows of a table, by state if it has the column.
func countRows(tx *db.Tx, table string) ([]string, error) {
	cols, err := columns(tx, table)
	if err != nil {
		return nil, err
	}
	// Their values are names or numbers of states, never data of users.
	i := slices.IndexFunc(cols, func(c column) bool {
		return c.name == "state" && strings.EqualFold(c.kind, "text") ||
			c.name == "status" && strings.EqualFold(c.kind, "integer")
	})
	if i < 0 {
		var n int64
		err := tx.QueryRow("SELECT COUNT(*) FROM " + quote(table)).Scan(&n)
		return []string{strconv.FormatInt(n, 10)}, err
	}
	by := quote(cols[i].name)
	rows, err := db.All(tx, func(s db.Scanner) (string, error) {
		var state string
		var n int64
		err := s.Scan(&state, &n)
		return fmt.Sprintf("%d %s %s", n, cols[i].name, state), err
	}, "SELECT CAST("+by+" AS TEXT), COUNT(*) FROM "+quote(table)+" GROUP BY "+by+" ORDER BY "+by)
	if len(rows) == 0 {
		rows = []string{"0"}
	}
	return rows, err
}
