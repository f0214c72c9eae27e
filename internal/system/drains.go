package system

import (
	"ingot/internal/base/datadir"
	"ingot/internal/base/safedial"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/server/roots"
)

// sharesLogs reports whether several servers have the lines of apps in one store.
func (r *runtime) sharesLogs() bool {
	_, shared := r.logs.(*logdb.Store)
	return shared && !r.cluster.Alone()
}

// openDrains returns the manager of log drains. Where servers share the lines of apps they
// share the positions of drains too.
func openDrains(r *runtime, dir *datadir.Dir, c Config, trusted *roots.Roots) (*drain.Manager, error) {
	guard, err := safedial.ParseGuard(c.DrainNetworks)
	if err != nil {
		return nil, err
	}
	guard = guard.With(c.guard())
	o := drain.Options{Positions: drain.Files{Dir: dir.File("drains")}, Owner: owner{r.cluster}, Guard: guard,
		TLS: trusted.TLS(), Log: c.Log}
	if r.sharesLogs() {
		o.Positions = r.store
	}
	return drain.New(r.logs, r.Info, o), nil
}
