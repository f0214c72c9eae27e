package system

import (
	"context"
	"log/slog"

	"ingot/internal/base/daemon"
	"ingot/internal/base/datadir"
	"ingot/internal/platform/engine/choice"
)

// Ended lists what Down has stopped.
type Ended struct {
	Server    int // its pid; 0 when none ran
	Instances int
	InCluster bool     // instances run on in a cluster, perhaps for other servers
	Servers   []string // database servers of services that were still running
}

// Down stops the server of a data directory, and everything that outlives it:
// instances of apps, their networks and mounts, database servers of services. The
// data is kept, and the next start of the server starts the apps again.
func Down(ctx context.Context, path, programs string, log *slog.Logger) (ended Ended, err error) {
	dir, pid, err := datadir.TakeOver(ctx, path)
	ended.Server = pid
	if err != nil {
		return ended, err
	}
	defer dir.Close()
	o := choice.Options{Dir: dir, Programs: programs, Log: log}
	ended.InCluster = choice.InCluster(o)
	if ended.Instances, err = choice.StopAll(ctx, o); err != nil {
		return ended, err
	}
	ended.Servers, err = daemon.StopBelow(ctx, dir.File(servicesDir))
	return ended, err
}
