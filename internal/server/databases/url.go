package databases

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/db"
)

// The SQLite files of a data directory.
const (
	PlatformFile      = "ingot.db"
	NotificationsFile = "notifications.db"
)

// FileExists reports whether there is a file or directory.
func FileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// IsPostgres reports whether the URL of a database is one of PostgreSQL.
func IsPostgres(databaseURL string) bool {
	return strings.HasPrefix(databaseURL, "postgres://") || strings.HasPrefix(databaseURL, "postgresql://")
}

// CheckURL returns what is wrong with the URL of a database. It never quotes the value, which
// may contain a password.
func CheckURL(s string) error {
	if s == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(s, "sqlite:"); ok {
		if path == "" {
			return errors.New("sqlite:PATH needs a path")
		}
		return nil
	}
	if !IsPostgres(s) {
		return errors.New("it must begin with sqlite: or postgres://")
	}
	if _, err := url.Parse(s); err != nil {
		return errors.New("it is not a URL; special characters in the password must be percent-encoded")
	}
	return nil
}

// Describe describes a database for users, without its password.
func Describe(databaseURL string) string {
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		return "SQLite, " + path
	}
	if u, err := url.Parse(databaseURL); err == nil {
		return strings.TrimSuffix("PostgreSQL, "+strings.TrimPrefix(u.Path, "/")+" at "+u.Host, " at ")
	}
	return "PostgreSQL"
}

// NotificationsURL returns the URL of the notification service's database: a separate file,
// so that mail and the platform do not wait for each other's writes, or the same
// PostgreSQL.
func NotificationsURL(databaseURL, dir string) string {
	if path, ok := strings.CutPrefix(databaseURL, "sqlite:"); ok {
		if filepath.Dir(path) == dir {
			return "sqlite:" + filepath.Join(dir, NotificationsFile)
		}
		return "sqlite:" + path + ".notifications"
	}
	return databaseURL
}

// Existing returns the URL of the database of a server, which exists.
func Existing(dataDir, databaseURL string) (string, error) {
	if IsPostgres(databaseURL) {
		return databaseURL, nil
	}
	path, given := strings.CutPrefix(databaseURL, "sqlite:")
	if !given {
		path = filepath.Join(dataDir, PlatformFile)
	}
	if !FileExists(path) {
		return "", fmt.Errorf("there is no database %s: set --database-url or --data-dir as for 'ingot up'", path)
	}
	return "sqlite:" + path, nil
}

// NotLost returns an error if the file of a database is empty or missing although a file that is
// written after the database shows that the server has used it: it would start without anything
// that it knew.
func NotLost(databaseURL, later string) error {
	path, isFile := strings.CutPrefix(databaseURL, "sqlite:")
	if !isFile || !strings.HasPrefix(later, filepath.Dir(path)+string(filepath.Separator)) || !FileExists(later) {
		return nil
	}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil && info.Size() > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil // or it says itself what is wrong
		}
	}
	return fmt.Errorf("the database %s is missing or empty, but %s exists: restore the database from a backup; to start "+
		"anew without it, move the data directory away", path, later)
}

// pingTime is less than the timeout of a readiness probe.
const pingTime = time.Second

// Unreachable returns why a database cannot be used, or "".
func Unreachable(d *db.DB) string {
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	defer cancel()
	if err := d.Ping(ctx); err != nil {
		return "the database does not answer: " + err.Error()
	}
	return ""
}
