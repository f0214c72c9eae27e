package system

import (
	"context"
	"errors"
	"log/slog"

	"ingot/internal/base/daemon"
	"ingot/internal/base/datadir"
	"ingot/internal/broker"
	"ingot/internal/platform/engine/choice"
)

// Ended lists what Down has stopped.
type Ended struct {
	// Stopped means that no server uses the data directory any more. Otherwise nothing else is
	// known.
	Stopped   bool
	Server    int // its pid; 0 when none ran
	Apps      choice.Stopped
	InCluster bool     // instances run on in a cluster, perhaps for other servers
	Servers   []string // database servers of services that were still running
}

// Down stops the server of a data directory, and everything that outlives it:
// instances of apps, their networks and mounts, database servers of services. The
// data is kept, and the next start of the server starts the apps again. What cannot be
// stopped does not keep it from the rest; the error says what is left.
func Down(ctx context.Context, path, programs string, log *slog.Logger) (ended Ended, err error) {
	dir, pid, err := datadir.TakeOver(ctx, path)
	ended.Server = pid
	if err != nil {
		return ended, err
	}
	defer dir.Close()
	ended.Stopped = true
	o := choice.Options{Dir: dir, Programs: programs, Log: log}
	ended.InCluster = choice.InCluster(o)
	ended.Apps, err = choice.StopAll(ctx, o)
	var servicesErr error
	ended.Servers, servicesErr = daemon.StopBelow(ctx, dir.File(servicesDir))
	if servicesErr == nil {
		servicesErr = broker.Release(dir.File(servicesDir))
	}
	return ended, errors.Join(err, servicesErr)
}
