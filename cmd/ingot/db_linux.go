package main

import (
	"context"
	"fmt"

	"ingot/internal/server/dbcopy"
	"ingot/internal/system"
)

// dbOptions are the subcommands of 'ingot db'.
type dbOptions struct {
	Migrate dbMigrateOptions `command:"migrate" description:"Migrate the database to this version" long-description:"Migrates the tables of all services to the version of this program and exits. A database that a newer version has used is refused, and nothing is changed. PostgreSQL can be migrated while servers of the previous version use it; the server of an SQLite database has to be stopped. 'ingot up' migrates by itself."`
	Copy    dbCopyOptions    `command:"copy" description:"Copy all data to an empty PostgreSQL database" long-description:"Copies the tables of all services (authorization server, platform, notifications) from the SQLite files of a data directory, or from PostgreSQL, to an empty PostgreSQL database. The servers of both have to be stopped. Everything is written in one transaction and compared with the source, table by table. If it fails, the other database stays empty; the source is never changed. The encryption keys are not in the database: keep DIR/secrets."`
}

type dbMigrateOptions struct {
	DataDir     string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
	DatabaseURL string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database: sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME (default: the SQLite files of the data directory)"`
	logOptions
}

type dbCopyOptions struct {
	From    string `long:"from" required:"yes" value-name:"DIR|URL" description:"Data directory of a server with SQLite, or sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME as for --database-url"`
	To      string `long:"to" required:"yes" value-name:"URL" description:"Empty database, postgres://USER:PASSWORD@HOST/NAME"`
	KeysDir string `long:"keys-dir" value-name:"DIR" description:"Data directory with the encryption keys, to check them, if --from is a URL"`
	logOptions
}

// migrateDB migrates a database.
func (p *process) migrateDB(o dbMigrateOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "db migrate"}
	}
	if o.DataDir == "" && o.DatabaseURL == "" {
		return &usageError{"--database-url or --data-dir is required", "db migrate"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	return system.Tables().MigrateServer(ctx, o.DataDir, o.DatabaseURL, log,
		func(line string) { fmt.Fprintln(p.out, line) })
}

// copyDB copies a database.
func (p *process) copyDB(o dbCopyOptions) error {
	log, err := p.logger(o.logOptions)
	if err != nil {
		return &usageError{err.Error(), "db copy"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	c := dbcopy.ServerCopy{From: o.From, To: o.To, KeysDir: o.KeysDir, EncryptionKey: p.getenv("INGOT_ENCRYPTION_KEY"),
		Log: log}
	err = system.Tables().CopyServer(ctx, c, func(line string) { fmt.Fprintln(p.out, line) })
	if ctx.Err() != nil && err != nil {
		return fmt.Errorf("interrupted: %w. The other database is empty; run it again", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(p.out, "Start the server with --database-url, and with the same --data-dir or a copy of its folder "+
		"'secrets':\n"+
		"without the file encryption-keys the secrets in the database cannot be decrypted.")
	return nil
}
