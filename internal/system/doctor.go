package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"ingot/internal/base/db"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

// CheckCluster checks what servers with the engine kubernetes need: the cluster, the
// database and the bucket.
func CheckCluster(ctx context.Context, c Config, report func(kubernetes.Finding)) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	checkDatabase(ctx, c, report)
	checkBucket(ctx, c, report)
	if flag, err := c.Kubernetes.Validate(); err != nil {
		report(kubernetes.Finding{Level: kubernetes.Fail, Step: "--" + flag, Found: err.Error(),
			Do: "set the flag or its environment variable"})
		return
	}
	keys, err := agent.NewKeys()
	if err != nil {
		report(kubernetes.Finding{Level: kubernetes.Fail, Step: "trial Pod", Found: err.Error(), Do: "try again"})
		return
	}
	d := kubernetes.Diagnosis{Options: kubernetes.Options{Config: c.Kubernetes, Authority: keys.Authority, Key: keys.Key,
		Server: "doctor", Log: c.Log}}
	if c.seams.diagnosis != nil {
		c.seams.diagnosis(&d)
	}
	d.Run(ctx, report)
}

const (
	// oldestPostgres is the oldest version of PostgreSQL that is supported.
	oldestPostgres = 130000
	// enoughConnections are those of three servers, and of a fourth during an upgrade:
	// two pools of 16 each, one to listen, and some for the operator.
	enoughConnections = 4*(2*16+1) + 8
)

func checkDatabase(ctx context.Context, c Config, report func(kubernetes.Finding)) {
	add := func(level kubernetes.Level, found, do string) {
		report(kubernetes.Finding{Level: level, Step: "database", Found: found, Do: do})
	}
	if !databases.IsPostgres(c.DatabaseURL) {
		add(kubernetes.Fail, "none", "several servers need PostgreSQL: set --database-url postgres://USER:PASSWORD@HOST/NAME")
		return
	}
	var s steps.Stack
	defer s.Unwind()
	d, err := s.OpenDB(ctx, db.Options{URL: c.DatabaseURL, Log: c.Log})
	var name string
	var version, connections int
	if err == nil {
		err = d.View(ctx, func(tx *db.Tx) error {
			return tx.QueryRow(`SELECT current_setting('server_version'), CAST(current_setting('server_version_num') AS INTEGER), CAST(current_setting('max_connections') AS INTEGER)`).
				Scan(&name, &version, &connections)
		})
	}
	if err != nil {
		add(kubernetes.Fail, err.Error(), "check --database-url, and that this machine can connect to it")
		return
	}
	found := databases.Describe(c.DatabaseURL) + ", version " + name
	newer, pending := schemaState(ctx, d)
	switch {
	case version < oldestPostgres:
		add(kubernetes.Fail, found, "PostgreSQL 13 or newer is needed")
	case newer != nil:
		add(kubernetes.Fail, found+": "+newer.Error(), "run the newer ingot")
	case connections < enoughConnections:
		add(kubernetes.Warn, fmt.Sprintf("%s, at most %d connections", found, connections),
			fmt.Sprintf("three servers and an upgrade may need %d: raise max_connections, or put PgBouncer in front",
				enoughConnections))
	case pending:
		add(kubernetes.OK, found+", to be migrated", "")
	default:
		add(kubernetes.OK, found, "")
	}
}

// schemaState returns whether a newer version has used the database, and whether tables
// have to be migrated.
func schemaState(ctx context.Context, d *db.DB) (newer error, pending bool) {
	for _, m := range schemas(db.Postgres) {
		found, known, err := d.SchemaVersion(ctx, m)
		var tooNew *db.NewerSchemaError
		if errors.As(err, &tooNew) {
			return err, false
		}
		pending = pending || found < known
	}
	return nil, pending
}

func checkBucket(ctx context.Context, c Config, report func(kubernetes.Finding)) {
	add := func(level kubernetes.Level, found, do string) {
		report(kubernetes.Finding{Level: level, Step: "bucket", Found: found, Do: do})
	}
	if c.BlobURL == "" {
		add(kubernetes.Fail, "none",
			"several servers need an S3-compatible store: set --blob-url s3://BUCKET/PREFIX?endpoint=https://HOST")
		return
	}
	trusted, err := c.roots()
	if err != nil {
		add(kubernetes.Fail, err.Error(), "name a PEM file of certificates")
		return
	}
	cache, err := os.MkdirTemp("", "ingot-doctor-")
	if err != nil {
		add(kubernetes.Fail, err.Error(), "set TMPDIR to a directory that can be written")
		return
	}
	defer os.RemoveAll(cache)
	bucket, err := openBucket(ctx, c.BlobURL, cache, trusted, c.Log)
	if err != nil {
		add(kubernetes.Fail, err.Error(), "see docs/blobs.md for the URL, the keys and the policy")
		return
	}
	bucket.Close()
	add(kubernetes.OK, "an object was written, read, listed and deleted", "")
}
