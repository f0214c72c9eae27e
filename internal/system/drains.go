package system

import (
	"ingot/internal/base/datadir"
	"ingot/internal/base/safedial"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/drain"
)

// openDrains returns the manager of log drains.
func openDrains(store logs.Store, source drain.Source, dir *datadir.Dir, c Config) (*drain.Manager, error) {
	guard, err := safedial.ParseGuard(c.DrainNetworks)
	if err != nil {
		return nil, err
	}
	guard = guard.With(c.guard())
	return drain.New(store, source, drain.Options{Dir: dir.File("drains"), Guard: guard, Log: c.Log}), nil
}
