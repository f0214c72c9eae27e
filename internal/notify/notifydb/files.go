package notifydb

import (
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/notify/notifydb/files"
)

// admitFiles renews the files of a group of sends, and refuses those sends whose files were deleted.
func admitFiles(tx *db.Tx, batch []*acceptance, now time.Time) error {
	var all []files.Key
	for _, a := range batch {
		if a.err == nil && !a.replayed {
			all = append(all, files.Of(&a.Send)...)
		}
	}
	// All processes change the rows in the same order, to avoid deadlocks.
	slices.SortFunc(all, files.Compare)
	gone := map[files.Key]bool{}
	for _, k := range slices.Compact(all) {
		known, err := files.Use(tx, k.Client, k.ID, db.Nanos(now))
		if err != nil {
			return err
		}
		if !known {
			gone[k] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, a := range batch {
		if a.err != nil || a.replayed {
			continue
		}
		for _, k := range files.Of(&a.Send) {
			if !gone[k] {
				continue
			}
			if err := refuse(tx, batch, a, fault.New(fault.Unprocessable,
				"The attachment with the id %s was deleted meanwhile: upload it again. Nothing was sent", k.ID)); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// storeFileUses records which files the sends of a group have.
func storeFileUses(tx *db.Tx, batch []*acceptance) error {
	var args []any
	for _, a := range batch {
		if a.err != nil || a.replayed {
			continue
		}
		for _, k := range files.Of(&a.Send) {
			args = append(args, k.Client, k.ID, a.Number)
		}
	}
	return files.NewUses.All(tx, args)
}
