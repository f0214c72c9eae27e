package logdb

import (
	"context"
	"fmt"

	"ingot/internal/base/db"
)

// putObject stores an object that a run will refer to. It is listed as unused before, in
// its own transaction, so that it is deleted if the run is never committed.
func (s *Store) putObject(name string, data []byte) error {
	err := s.db.UpdateLocking(s.work, func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO log_objects (object, since) VALUES (?, CAST(EXTRACT(EPOCH FROM now()) * 1000000000 "+
			"AS BIGINT))", name)
		return err
	})
	if err != nil {
		return err
	}
	return s.options.Objects.Put(s.work, name, data)
}

// deleteObjects deletes some objects that no run refers to.
func (s *Store) deleteObjects(ctx context.Context) error {
	if s.options.Objects == nil {
		return nil
	}
	var unused []string
	err := s.db.View(ctx, func(tx *db.Tx) (err error) {
		unused, err = db.All(tx, value[string],
			"SELECT object FROM log_objects WHERE since < CAST(EXTRACT(EPOCH FROM now()) * 1000000000 AS BIGINT) - ? ORDER BY "+
				"since LIMIT 1000", int64(s.options.ObjectGrace))
		return err
	})
	if err != nil || len(unused) == 0 {
		return err
	}
	for i, name := range unused {
		if err := s.options.Objects.Delete(ctx, name); err != nil {
			s.options.Log.WarnContext(ctx, "an unused object with log lines could not be deleted; this is tried again", "object",
				name, "error", err)
			unused = unused[:i]
			break
		}
	}
	return s.db.UpdateLocking(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec("DELETE FROM log_objects WHERE object = ANY(?)", db.Raw{V: unused}); err != nil {
			return fmt.Errorf("forget deleted objects: %w", err)
		}
		return nil
	})
}
