package system

import (
	"context"
	"errors"
	"strings"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/server/cluster"
)

const (
	logStoreAuto     = "auto"
	logStoreFiles    = "files"
	logStorePostgres = "postgres"
)

// LogStores are the values of Config.LogStore.
var LogStores = []string{logStoreAuto, logStoreFiles, logStorePostgres}

// openLogs opens the log store of --log-store. auto means PostgreSQL where several servers
// share the instances of apps, so that each finds the lines of all, otherwise files.
func openLogs(ctx context.Context, dir *datadir.Dir, d *db.DB, servers *cluster.Cluster, objects logdb.Objects,
	c Config) (logs.Store, error) {
	shared := c.Engine == "kubernetes" && d.Dialect() == db.Postgres
	if c.LogStore == logStorePostgres || c.LogStore == logStoreAuto && shared {
		return logdb.Open(ctx, d, logdb.Options{
			Fence: owner{servers}, Lead: leadOf(servers, "compact-logs"), Alone: servers.Alone(), Log: c.Log, Objects: objects,
			Subscribe: func(received func(string), connected func(bool)) {
				servers.Subscribe(logdb.Channel, received, connected)
			},
		})
	}
	return logfiles.Open(dir.File("logs"), logfiles.Options{Log: c.Log})
}

func (c Config) checkLogStore() error {
	if c.LogStore == logStorePostgres && !strings.HasPrefix(c.DatabaseURL, "postgres") {
		return errors.New("postgres requires --database-url postgres://…")
	}
	return oneOf(c.LogStore, LogStores)
}
