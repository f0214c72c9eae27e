package notifydb

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/usage"
)

// listsKept is how long a list may wait for its send. Only a crash while one is accepted leaves
// a list behind.
const listsKept = 24 * time.Hour

// CreateList implements notify.Store.
func (s *Store) CreateList(ctx context.Context, clientID, id string) error {
	return s.lock(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(query.Insert("notify_lists", "id, send, created, client_id"), id, 0, db.Nanos(s.now()), clientID)
		return err
	})
}

// AddToList implements notify.Store.
func (s *Store) AddToList(ctx context.Context, clientID, id string, position int, members []notify.Member) error {
	if position%notify.ListBlock != 0 || len(members) > notify.ListBlock {
		return fmt.Errorf("%d members at position %d of a list are not a block", len(members), position)
	}
	for _, m := range members {
		if err := query.AllStorable(m.UserID, m.Email, m.Locale, string(m.Data)); err != nil {
			return err
		}
	}
	block, err := json.Marshal(members)
	if err != nil {
		return err
	}
	return s.usage.Storing(ctx, clientID, int64(len(block)), func() (bool, error) {
		err := s.lock(ctx, func(tx *db.Tx) error {
			n, err := tx.Exec(`INSERT INTO notify_list_members (list, position, members)
				SELECT id, ?, ? FROM notify_lists WHERE id = ? AND client_id = ? AND send = 0`,
				position, string(block), id, clientID)
			if err == nil && n == 0 {
				return notify.ErrNotFound
			}
			return err
		})
		return err == nil, err
	})
}

// ListedMembers implements notify.Store.
func (s *Store) ListedMembers(ctx context.Context, id string, position int) ([]notify.Member, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Member, error) {
		members, err := query.One(tx, func(row db.Scanner) (list db.JSON[[]notify.Member], err error) {
			err = row.Scan(&list)
			return list, err
		}, "SELECT members FROM notify_list_members WHERE list = ? AND position = ?", id, position)
		if query.IsNotFound(err) {
			return []notify.Member{}, nil
		}
		return members.V, err
	})
}

// useList connects a list, if there is one, with the send that is accepted.
func useList(tx *db.Tx, id string, send int64) error {
	if id == "" {
		return nil
	}
	n, err := tx.Exec("UPDATE notify_lists SET send = ? WHERE id = ? AND send = 0", send, id)
	if err == nil && n == 0 {
		return fmt.Errorf("the list of recipients of a send: %w", notify.ErrNotFound)
	}
	return err
}

// DeleteList implements notify.Store.
func (s *Store) DeleteList(ctx context.Context, id string) error {
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) { return deleteList(tx, id) })
}

func deleteList(tx *db.Tx, id string) ([]usage.Freed, error) {
	// It is locked, because a send that is accepted now may take it.
	free, err := db.All(tx, usage.ScanFreed, "SELECT client_id, ("+usage.ListBytes+
		") FROM notify_lists AS l WHERE id = ? AND send = 0"+forUpdateOf(tx.Dialect(), "l"), id)
	if err != nil || len(free) == 0 {
		return nil, err
	}
	for _, statement := range []string{
		"DELETE FROM notify_lists WHERE id = ?", "DELETE FROM notify_list_members WHERE list = ?",
	} {
		if _, err := tx.Exec(statement, id); err != nil {
			return nil, err
		}
	}
	return free, nil
}

// purgeLists deletes lists that were left behind, one per transaction.
func (s *Store) purgeLists(ctx context.Context) error {
	before := db.Nanos(s.now().Add(-listsKept))
	for {
		var left int
		err := s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
			ids, err := db.All(tx, query.ScanText,
				"SELECT id FROM notify_lists WHERE send = 0 AND created < ? ORDER BY created LIMIT 1", before)
			left = len(ids)
			if err != nil || left == 0 {
				return nil, err
			}
			return deleteList(tx, ids[0])
		})
		if err != nil || left == 0 {
			return err
		}
	}
}
