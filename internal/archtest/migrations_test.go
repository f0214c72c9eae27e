package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tablePrefixes are the beginnings of the names of tables, by the folder whose migrations
// create them. Backups leave out log lines and running servers by these names.
var tablePrefixes = map[string]string{
	"internal/auth/authdb":         "auth_",
	"internal/console/consoledb":   "console_",
	"internal/notify/notifydb":     "notify_",
	"internal/platform/logs/logdb": "log_",
	"internal/platform/platformdb": "platform_",
	"internal/server/cluster":      "cluster_",
}

var createTable = regexp.MustCompile(`(?i)CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)`)

// TestTablePrefixes checks that the name of a table says whose it is.
func TestTablePrefixes(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root(t), "internal"), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".sql" || filepath.Base(filepath.Dir(path)) != "migrations" {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root(t), filepath.Dir(filepath.Dir(path)))
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		prefix, ok := tablePrefixes[name]
		if found[name] = true; !ok {
			t.Errorf("%s has migrations and is not in tablePrefixes", name)
		}
		for _, match := range createTable.FindAllStringSubmatch(string(text), -1) {
			if table := match[1]; !strings.HasPrefix(table, prefix) {
				t.Errorf("%s creates the table %s: its tables begin with %s, and backups choose tables by their names", path,
					table, prefix)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != len(tablePrefixes) {
		t.Errorf("%d folders with migrations, want %d", len(found), len(tablePrefixes))
	}
}
