package dbcopy

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/seal"
	"ingot/internal/base/version"
	"ingot/internal/server/cluster"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

// MigrateServer migrates the tables of all services to the version of this program.
// If some are newer, nothing is changed. PostgreSQL may be in use by servers of the
// previous version, the SQLite files of a data directory must not. Done is called with
// a line of text for each service.
func (t Tables) MigrateServer(ctx context.Context, dataDir, databaseURL string, log *slog.Logger,
	done func(string)) error {
	if err := databases.CheckURL(databaseURL); err != nil {
		return fmt.Errorf("--database-url: %w", err)
	}
	var s source
	defer s.Unwind()
	urls := []string{databaseURL}
	if !databases.IsPostgres(databaseURL) {
		var err error
		if urls, err = s.holdFiles(cmp.Or(databaseURL, dataDir), log); err != nil {
			return err
		}
	}
	var opened []*db.DB
	for _, one := range urls {
		d, err := s.OpenDB(ctx, db.Options{URL: one, Log: log})
		if err != nil {
			return err
		}
		opened = append(opened, d)
	}
	return t.migrateAll(ctx, opened, done)
}

func (t Tables) migrateAll(ctx context.Context, opened []*db.DB, done func(string)) error {
	type work struct {
		d      *db.DB
		m      db.Migrations
		before int64
	}
	var all []work
	for _, d := range opened {
		for _, m := range t.Schemas(d.Dialect()) {
			found, _, err := d.SchemaVersion(ctx, m)
			if err != nil {
				return err
			}
			// The SQLite files of a server have the tables of different services.
			if found > 0 || d.Dialect() == db.Postgres {
				all = append(all, work{d, m, found})
			}
		}
	}
	for _, w := range all {
		if err := w.d.Migrate(ctx, w.m); err != nil {
			return err
		}
		after, _, err := w.d.SchemaVersion(ctx, w.m)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%-10s version %d", w.m.Name, after)
		if w.before != after {
			text += fmt.Sprintf(" (was %d)", w.before)
		}
		done(text)
	}
	return nil
}

// ServerCopy says what CopyServer copies.
type ServerCopy struct {
	// From is a data directory, sqlite:PATH or postgres://…; To is postgres://….
	From, To string
	// KeysDir is the data directory with the encryption keys if From is not one; empty
	// means that secrets are not checked. EncryptionKey is used instead of its file.
	KeysDir       string
	EncryptionKey string
	Log           *slog.Logger
}

// CopyServer copies the tables of all services into an empty PostgreSQL, and compares
// the copy. Tell is called with lines of text. If it fails, the target has no rows.
func (t Tables) CopyServer(ctx context.Context, c ServerCopy, tell func(string)) error {
	var s source
	defer s.Unwind()
	switch {
	case !databases.IsPostgres(c.To):
		return errors.New("--to: it must be postgres://USER:PASSWORD@HOST/NAME")
	case databases.CheckURL(c.To) != nil:
		return fmt.Errorf("--to: %w", databases.CheckURL(c.To))
	}
	from, err := s.openSource(ctx, c)
	if err != nil {
		return fmt.Errorf("--from: %w", err)
	}
	keys, err := c.keys()
	if err != nil {
		return err
	}
	to, err := s.OpenDB(ctx, db.Options{URL: c.To, Keys: keys, Log: c.Log})
	if err == nil {
		err = Alone(ctx, &s.Stack, to, c.Log)
	}
	if err != nil {
		return fmt.Errorf("--to: %w", err)
	}
	var rows int64
	tables := 0
	err = Copy(ctx, Options{
		Tables: t, From: from, To: to, Keys: keys != nil,
		Transient: func(table string) bool { return strings.HasPrefix(table, "cluster_") },
		Report: func(p Progress) {
			text := fmt.Sprintf("%-40s %9d rows", p.Table, p.Rows)
			if !p.Done {
				tell(text + " …")
				return
			}
			rows, tables = rows+p.Rows, tables+1
			if p.Rows == 0 {
				return
			}
			text += "  " + p.Sum
			if p.Unreadable > 0 {
				text += fmt.Sprintf("  %d secrets cannot be decrypted, before neither", p.Unreadable)
			}
			tell(text)
		},
	})
	var full *NotEmptyError
	if errors.As(err, &full) {
		return fmt.Errorf("--to: %w", err)
	}
	if err != nil {
		return err
	}
	tell(fmt.Sprintf("Copied %d rows of %d tables to %s; number and checksum of each table are the same.", rows, tables,
		databases.Describe(c.To)))
	if keys == nil {
		tell("It was not checked whether the secrets can be decrypted, because no keys were given (--keys-dir).")
	}
	return nil
}

// keys returns the keys of the source; nil if none are known.
func (c ServerCopy) keys() (*seal.Keyring, error) {
	dir := c.KeysDir
	if !strings.HasPrefix(c.From, "sqlite:") && !databases.IsPostgres(c.From) {
		dir = c.From
	}
	if dir == "" && c.EncryptionKey == "" {
		return nil, nil //nolint:nilnil // there need not be any
	}
	return datadir.ReadKeys(dir, c.EncryptionKey)
}

// source is what a command has opened.
type source struct{ steps.Stack }

// openSource opens the databases of an installation, and makes sure that no server uses
// them until the steps are undone.
func (s *source) openSource(ctx context.Context, c ServerCopy) ([]*db.DB, error) {
	if databases.IsPostgres(c.From) {
		d, err := s.OpenDB(ctx, db.Options{URL: c.From, Log: c.Log})
		if err != nil {
			return nil, err
		}
		return []*db.DB{d}, Alone(ctx, &s.Stack, d, c.Log)
	}
	files, err := s.holdFiles(c.From, c.Log)
	if err != nil {
		return nil, err
	}
	var all []*db.DB
	for _, file := range files {
		d, err := s.OpenDB(ctx, db.Options{URL: file, Log: c.Log})
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// Alone makes sure that no server uses a PostgreSQL database until the steps are undone.
func Alone(ctx context.Context, s *steps.Stack, d *db.DB, log *slog.Logger) error {
	if _, _, err := d.SchemaVersion(ctx, cluster.Migrations()); err != nil {
		return err
	}
	err := s.Run(ctx, cluster.New(cluster.Options{DB: d, Exclusive: true, Directory: rand.Text(),
		Version: version.Version, Log: log}))
	var used *cluster.RefusedError
	if errors.As(err, &used) {
		return fmt.Errorf("%s uses this database: stop it first, with 'ingot down' on its machine or 'kubectl scale "+
			"deployment/ingot --replicas=0'; "+
			"after a crash, try again in 10 seconds", used.Server)
	}
	return err
}

// holdFiles returns the URLs of the SQLite files of a data directory, or of the URL
// sqlite:PATH, and makes sure that no server uses them until the steps are undone.
func (s *source) holdFiles(from string, log *slog.Logger) ([]string, error) {
	path, isURL := strings.CutPrefix(from, "sqlite:")
	if from == "" {
		return nil, errors.New("the name of a data directory or the URL of a database is needed")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	var candidates []string
	if isURL {
		beside := path + ".notifications" // see databases.NotificationsURL
		if !databases.FileExists(beside) {
			beside = filepath.Join(filepath.Dir(path), databases.NotificationsFile)
		}
		candidates = []string{path, beside}
	} else {
		if err := s.holdDirectory(path, log); err != nil {
			return nil, err
		}
		candidates = []string{filepath.Join(path, databases.PlatformFile), filepath.Join(path, databases.NotificationsFile)}
	}
	var found []string
	for _, file := range candidates {
		if !databases.FileExists(file) {
			continue
		}
		if isURL { // otherwise the directory is locked
			if pid := db.OpenedBy(file); pid != 0 {
				return nil, fmt.Errorf("the process %d has the database %s open: stop the server first, with 'ingot down'", pid,
					file)
			}
		}
		found = append(found, "sqlite:"+file)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no database: if its server has the flag --database-url, name that URL instead", path)
	}
	return found, nil
}

func (s *source) holdDirectory(path string, log *slog.Logger) error {
	dir, err := datadir.OpenExisting(path, log)
	var held *datadir.HeldError
	if errors.As(err, &held) {
		return fmt.Errorf("a server (pid %d) uses %s: stop it first, with 'ingot down --data-dir %s'", held.PID, path, path)
	}
	if err != nil {
		return err
	}
	s.Later(dir.Close)
	return nil
}
