package actions

import (
	"strconv"
	"testing"

	"ingot/internal/platform"
)

// TestRevisionsKept sees that the oldest revisions are removed, except one that runs.
func TestRevisionsKept(t *testing.T) {
	t.Parallel()
	store, p := withDroplets(t)
	update(t, store, func(tx platform.Tx) error {
		worker := p.NewProcess(&platform.App{Resource: platform.Resource{GUID: "app"}}, "worker")
		return tx.Processes().Insert(worker)
	})
	for n := range keptRevisions + 5 {
		update(t, store, func(tx platform.Tx) error {
			app, web := current(t, tx)
			app.Env = map[string]string{"N": strconv.Itoa(n)}
			r, err := p.revise(tx, Actor{}, app)
			if err != nil || n > 0 {
				return err
			}
			web.RevisionGUID = r.GUID // the first runs
			return tx.Processes().Update(web)
		})
	}
	update(t, store, func(tx platform.Tx) error {
		q := platform.Where("app_guid", "app")
		q.Order = "version"
		all, _, err := tx.Revisions().List(q)
		if err != nil {
			return err
		}
		if n := len(all); n != keptRevisions+1 || all[0].Version != 1 || all[1].Version != 6 ||
			all[n-1].Version != keptRevisions+5 {
			t.Errorf("%d are left, from %d and %d to %d, want 101: 1, and 6 to 105", n, all[0].Version, all[1].Version,
				all[n-1].Version)
		}
		return nil
	})
}
