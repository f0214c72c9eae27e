package notifydb

import (
	"bytes"
	"embed"
	"io/fs"
	"strings"

	"ingot/internal/base/db"
)

//go:embed migrations/*.sql migrations/fresh.sqlite
var migrations embed.FS

// Migrations returns the tables of this store for one kind of database.
func Migrations(dialect db.Dialect) db.Migrations {
	sub, err := fs.Sub(migrations, "migrations")
	if err != nil {
		panic(err) // the folder is named wrongly
	}
	if dialect == db.SQLite {
		sub = rewritten{sub, forSQLite}
	}
	return db.Migrations{Name: "notify", Files: sub}
}

// forSQLite adapts the tables to SQLite, where a table is a B-tree by rowid,
// which an integer primary key aliases and which every index contains, or by
// primary key.
var forSQLite = strings.NewReplacer(
	"number          BIGINT NOT NULL PRIMARY KEY", "number INTEGER NOT NULL PRIMARY KEY",
	"number   BIGINT NOT NULL PRIMARY KEY", "number INTEGER NOT NULL PRIMARY KEY",
	", number)", ")",
	"/* CLUSTERED */", "WITHOUT ROWID",
)

// rewritten is a file system whose files are read with some words replaced.
type rewritten struct {
	fs.FS
	words *strings.Replacer
}

// Open implements fs.FS.
func (r rewritten) Open(name string) (fs.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return f, err
	}
	f.Close() //nolint:errcheck // it is part of this program
	text, err := r.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return &textFile{Reader: bytes.NewReader(text), info: sized{info, int64(len(text))}}, nil
}

// ReadFile implements fs.ReadFileFS.
func (r rewritten) ReadFile(name string) ([]byte, error) {
	text, err := fs.ReadFile(r.FS, name)
	return []byte(r.words.Replace(string(text))), err
}

type textFile struct {
	*bytes.Reader
	info fs.FileInfo
}

func (f *textFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *textFile) Close() error               { return nil }

type sized struct {
	fs.FileInfo
	size int64
}

func (s sized) Size() int64 { return s.size }
