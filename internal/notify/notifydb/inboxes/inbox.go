package inboxes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/usage"
)

const (
	notificationColumns = "number, client_id, user_id, kind_id, position, change, created, title, content, read_at, " +
		"archived_at"
	recentColumns = "n.number, n.client_id, n.user_id, n.kind_id, n.position, n.change, n.created, n.title, n.content, " +
		"n.read_at, n.archived_at"
	// notificationOverhead is what a notification takes in addition to its texts: the row and its indexes.
	notificationOverhead = 512
	notificationBytes    = "octet_length(title) + octet_length(content)"
)

// purgeBatch limits the rows of a transaction.
const purgeBatch = 1000

var (
	newNotifications = query.NewInsertion("notify_inbox",
		"number, client_id, user_id, kind_id, position, change, created, "+
			"title, content", " ON CONFLICT (number) DO NOTHING")
	// moreInboxes counts changes and notifications of inboxes.
	moreInboxes = query.NewInsertion("notify_inboxes", "client_id, user_id, change, reset, total, changed",
		` ON CONFLICT (client_id, user_id) DO UPDATE SET change = notify_inboxes.change + excluded.change,
			total = notify_inboxes.total + excluded.total, changed = excluded.changed`)
)

func scanNotification(row db.Scanner) (n notify.Notification, err error) {
	err = row.Scan(&n.Number, &n.ClientID, &n.UserID, &n.KindID, &n.Position, &n.Change, query.Moment(&n.Created),
		&n.Title, &n.Text, query.Moment(&n.Read), query.Moment(&n.Archived))
	return n, err
}

func notificationSize(n *notify.Notification) int64 {
	return int64(len(n.Title)+len(n.Text)) + notificationOverhead
}

// AddNotifications implements notify.Store.
func (s *Inboxes) AddNotifications(ctx context.Context, clientID string, all []notify.Notification) error {
	numbers := make([]int64, 0, len(all))
	for i := range all {
		n := &all[i]
		if err := query.AllStorable(clientID, n.UserID, n.KindID, n.Title, n.Text); err != nil {
			return err
		}
		numbers = append(numbers, n.Number)
	}
	if len(all) == 0 {
		return nil
	}
	there, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]int64, error) {
		return db.All(tx, query.ScanNumber, "SELECT number FROM notify_inbox WHERE "+query.NumbersIn(tx.Dialect(), "number"),
			query.NumberList(tx.Dialect(), numbers))
	})
	if err != nil {
		return err
	}
	fresh, size := make([]notify.Notification, 0, len(all)), int64(0)
	for i := range all {
		if !slices.Contains(there, all[i].Number) {
			fresh = append(fresh, all[i])
			size += notificationSize(&all[i])
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	// All processes change inboxes in the same order, to avoid deadlocks.
	slices.SortStableFunc(fresh, func(a, b notify.Notification) int { return strings.Compare(a.UserID, b.UserID) })
	var full []string
	err = s.usage.Storing(ctx, clientID, size, func() (bool, error) {
		err := query.Lock(ctx, s.db, func(tx *db.Tx) (err error) {
			full, err = addNotifications(tx, clientID, fresh, db.Nanos(s.now()))
			return err
		})
		return err == nil, err
	})
	if err != nil {
		return err
	}
	for _, user := range full {
		if err := s.prune(ctx, notify.Owner{ClientID: clientID, UserID: user}); err != nil {
			s.log.WarnContext(ctx, "delete old notifications failed, trying again with the next one", "error", err)
		}
	}
	return nil
}

// addNotifications inserts notifications, which are sorted by user, and returns the users that have too many.
func addNotifications(tx *db.Tx, clientID string, fresh []notify.Notification, now int64) (full []string, err error) {
	counts := map[string]int64{}
	var users []string
	for i := range fresh {
		if counts[fresh[i].UserID]++; counts[fresh[i].UserID] == 1 {
			users = append(users, fresh[i].UserID)
		}
	}
	var inboxes []any
	for _, user := range users {
		inboxes = append(inboxes, clientID, user, counts[user], 0, counts[user], now)
	}
	if err := moreInboxes.All(tx, inboxes); err != nil {
		return nil, err
	}
	list, err := query.TextList(users)
	if err != nil {
		return nil, err
	}
	next := map[string]int64{}
	_, err = db.All(tx, func(row db.Scanner) (user string, err error) {
		var change, total int64
		err = row.Scan(&user, &change, &total)
		next[user] = change - counts[user] + 1
		if total > notify.InboxLimit {
			full = append(full, user)
		}
		return user, err
	}, "SELECT user_id, change, total FROM notify_inboxes WHERE client_id = ? AND "+query.TextsIn(tx.Dialect(), "user_id"),
		clientID, list)
	if err != nil {
		return nil, err
	}
	var rows []any
	for i := range fresh {
		n := &fresh[i]
		at := next[n.UserID]
		next[n.UserID]++
		rows = append(rows, n.Number, clientID, n.UserID, n.KindID, at, at, now, n.Title, n.Text)
	}
	return full, newNotifications.All(tx, rows)
}

// nextChange counts a change of an inbox, which locks it, and returns its number. With reset it is one that changes
// more than a notification.
func nextChange(tx *db.Tx, of notify.Owner, now int64, reset bool, removed int) (change int64, err error) {
	statement := "UPDATE notify_inboxes SET change = change + 1, changed = ?, total = total - ?"
	if reset {
		statement += ", reset = change + 1"
	}
	return query.One(tx, query.ScanNumber, statement+" WHERE client_id = ? AND user_id = ? RETURNING change", now, removed,
		of.ClientID, of.UserID)
}

// prune deletes the notifications of a user that are too many.
func (s *Inboxes) prune(ctx context.Context, of notify.Owner) error {
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		if _, err := nextChange(tx, of, db.Nanos(s.now()), true, 0); err != nil {
			return nil, err
		}
		total, err := query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_inbox WHERE client_id = ? AND user_id = ?",
			of.ClientID, of.UserID)
		if err != nil {
			return nil, err
		}
		gone, err := db.All(tx, usage.ScanFreed, `DELETE FROM notify_inbox WHERE number IN
			(SELECT number FROM notify_inbox WHERE client_id = ? AND user_id = ? ORDER BY
			CASE WHEN archived_at > 0 THEN 0 WHEN read_at > 0 THEN 1 ELSE 2 END, position LIMIT ?)
			RETURNING client_id, `+notificationBytes+" + ?", of.ClientID, of.UserID, max(0, total-notify.InboxKept),
			notificationOverhead)
		if err != nil {
			return nil, err
		}
		_, err = tx.Exec("UPDATE notify_inboxes SET total = ? WHERE client_id = ? AND user_id = ?",
			total-int64(len(gone)), of.ClientID, of.UserID)
		return gone, err
	})
}

// Notifications implements notify.Store.
func (s *Inboxes) Notifications(ctx context.Context, q notify.InboxQuery) ([]notify.Notification, error) {
	where, args := "client_id = ? AND user_id = ?", []any{q.ClientID, q.UserID}
	if q.Before > 0 {
		where, args = where+" AND position < ?", append(args, q.Before)
	}
	if q.Archived {
		where += " AND archived_at > 0"
	} else {
		where += " AND archived_at = 0"
	}
	if q.Unread {
		where += " AND read_at = 0"
	}
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Notification, error) {
		return query.Matching(tx, scanNotification, "SELECT "+notificationColumns+" FROM notify_inbox WHERE "+where+
			" ORDER BY position DESC LIMIT ?", append(args, q.Limit)...)
	})
}

// ChangeNotification implements notify.Store. A change that changes nothing is not counted.
func (s *Inboxes) ChangeNotification(ctx context.Context, of notify.Owner, number int64,
	c notify.NotificationChange) (n notify.Notification, err error) {
	now := s.now()
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		// The inbox is locked before its notifications, as everywhere.
		if _, err := query.One(tx, query.ScanNumber, "SELECT change FROM notify_inboxes WHERE client_id = ? AND user_id = ?"+
			query.ForUpdate(tx.Dialect()), of.ClientID, of.UserID); err != nil {
			return err
		}
		n, err = findNotification(tx, of, number)
		if err != nil {
			return err
		}
		set := func(at *time.Time, to *bool) bool {
			if to == nil || *to != at.IsZero() {
				return false
			}
			*at = time.Time{}
			if *to {
				*at = db.Time(db.Nanos(now))
			}
			return true
		}
		read, archived := set(&n.Read, c.Read), set(&n.Archived, c.Archived)
		if !read && !archived {
			return nil
		}
		if n.Change, err = nextChange(tx, of, db.Nanos(now), false, 0); err != nil {
			return err
		}
		return query.Found(tx.Exec("UPDATE notify_inbox SET read_at = ?, archived_at = ?, change = ? WHERE number = ?",
			db.Nanos(n.Read), db.Nanos(n.Archived), n.Change, number))
	})
	return n, err
}

func findNotification(tx *db.Tx, of notify.Owner, number int64) (notify.Notification, error) {
	return query.One(tx, scanNotification, "SELECT "+notificationColumns+
		" FROM notify_inbox WHERE number = ? AND client_id = ? AND user_id = ?", number, of.ClientID, of.UserID)
}

// DeleteNotification implements notify.Store.
func (s *Inboxes) DeleteNotification(ctx context.Context, of notify.Owner, number int64) error {
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		n, err := findNotification(tx, of, number)
		if err != nil {
			return nil, err
		}
		if _, err := nextChange(tx, of, db.Nanos(s.now()), true, 1); err != nil {
			return nil, err
		}
		if err := query.Found(tx.Exec("DELETE FROM notify_inbox WHERE number = ?", number)); err != nil {
			return nil, err
		}
		return []usage.Freed{{Client: of.ClientID, Bytes: notificationSize(&n)}}, nil
	})
}

// ReadAll implements notify.Store.
func (s *Inboxes) ReadAll(ctx context.Context, of notify.Owner) (read int, err error) {
	now := db.Nanos(s.now())
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		change, err := nextChange(tx, of, now, true, 0)
		if query.IsNotFound(err) {
			return nil // an empty one
		}
		if err != nil {
			return err
		}
		n, err := tx.Exec("UPDATE notify_inbox SET read_at = ?, change = ? WHERE client_id = ? AND user_id = ? AND "+
			"read_at = 0 AND archived_at = 0", now, change, of.ClientID, of.UserID)
		read = int(n)
		return err
	})
	return read, err
}

// ChangedInboxes implements notify.Store.
func (s *Inboxes) ChangedInboxes(ctx context.Context, since time.Time, limit int) ([]notify.Owner, bool, error) {
	changed, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Owner, error) {
		return db.All(tx, scanOwner, "SELECT client_id, user_id FROM notify_inboxes WHERE changed >= ? ORDER BY "+
			"changed LIMIT ?", db.Nanos(since), limit+1)
	})
	if len(changed) > limit {
		return changed[:limit], true, err
	}
	return changed, false, err
}

func scanOwner(row db.Scanner) (o notify.Owner, err error) {
	err = row.Scan(&o.ClientID, &o.UserID)
	return o, err
}

// PurgeInboxes deletes notifications that are old, and inboxes that have been empty for as long.
func (s *Inboxes) PurgeInboxes(ctx context.Context) error {
	before := db.Nanos(s.now().Add(-notify.InboxAge))
	for {
		old, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Owner, error) {
			return db.All(tx, scanOwner, "SELECT client_id, user_id FROM notify_inbox WHERE created < ? ORDER BY "+
				"created LIMIT ?", before, purgeBatch)
		})
		if err != nil || len(old) == 0 {
			return err
		}
		seen := map[notify.Owner]bool{}
		for _, of := range old {
			if seen[of] {
				continue
			}
			seen[of] = true
			if err := s.purgeInbox(ctx, of, before); err != nil {
				return fmt.Errorf("delete old notifications: %w", err)
			}
		}
	}
}

func (s *Inboxes) purgeInbox(ctx context.Context, of notify.Owner, before int64) error {
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		if _, err := nextChange(tx, of, db.Nanos(s.now()), true, 0); err != nil {
			return nil, err
		}
		gone, err := db.All(tx, usage.ScanFreed,
			"DELETE FROM notify_inbox WHERE client_id = ? AND user_id = ? AND created < ? "+
				"RETURNING client_id, "+notificationBytes+" + ?", of.ClientID, of.UserID, before, notificationOverhead)
		if err != nil {
			return nil, err
		}
		_, err = tx.Exec("UPDATE notify_inboxes SET total = total - ? WHERE client_id = ? AND user_id = ?", len(gone),
			of.ClientID, of.UserID)
		return gone, err
	})
}

// ForgetInboxes deletes inboxes that have been empty for long. Streams that know a later change start again.
func (s *Inboxes) ForgetInboxes(ctx context.Context) error {
	before := db.Nanos(s.now().Add(-notify.InboxAge))
	for {
		var n int64
		err := query.Lock(ctx, s.db, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(`DELETE FROM notify_inboxes WHERE total = 0 AND changed < ? AND (client_id, user_id) IN
				(SELECT client_id, user_id FROM notify_inboxes WHERE changed < ? AND total = 0 ORDER BY changed LIMIT ?)`,
				before, before, purgeBatch)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}

// EraseInbox deletes what a user has in an inbox, if there is one. count records how much, in the same transaction.
func (s *Inboxes) EraseInbox(ctx context.Context, of notify.Owner, count func(tx *db.Tx, n int) error) error {
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		_, err := nextChange(tx, of, db.Nanos(s.now()), true, 0)
		if query.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		gone, err := db.All(tx, usage.ScanFreed, "DELETE FROM notify_inbox WHERE client_id = ? AND user_id = ? "+
			"RETURNING client_id, "+notificationBytes+" + ?", of.ClientID, of.UserID, notificationOverhead)
		if err != nil {
			return nil, err
		}
		if _, err := tx.Exec("DELETE FROM notify_inboxes WHERE client_id = ? AND user_id = ?", of.ClientID,
			of.UserID); err != nil {
			return nil, err
		}
		return gone, count(tx, len(gone))
	})
}

// InboxesOf returns the inboxes that the user may have.
func (s *Inboxes) InboxesOf(ctx context.Context, p notify.Person) ([]notify.Owner, error) {
	if !p.All {
		return []notify.Owner{{ClientID: p.ClientID, UserID: p.UserID}}, nil
	}
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Owner, error) {
		return query.Matching(tx, scanOwner,
			"SELECT client_id, user_id FROM notify_inboxes WHERE user_id = ? AND client_id IN "+
				"(SELECT client_id FROM notify_receipts WHERE user_id = ? UNION SELECT id FROM notify_clients) ORDER BY client_id",
			p.UserID, p.UserID)
	})
}

// AllNotifications returns what a user has in an inbox.
func (s *Inboxes) AllNotifications(ctx context.Context, of notify.Owner) ([]notify.Notification, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Notification, error) {
		return query.Matching(tx, scanNotification, "SELECT "+notificationColumns+
			" FROM notify_inbox WHERE client_id = ? AND user_id = ? ORDER BY position DESC", of.ClientID, of.UserID)
	})
}

// inboxChannel is the channel of PostgreSQL on which servers tell each other which inboxes changed.
const inboxChannel = "ingot_inbox"

// TellInboxes tells the other servers which inboxes changed.
func (s *Inboxes) TellInboxes(ctx context.Context, payload string) error {
	if !s.db.Shared() {
		return nil
	}
	return s.db.Notify(ctx, inboxChannel, payload)
}

// HearInboxes passes on what servers tell, also this one, until ctx is done or the connection ends. connected is
// called when it has begun.
func (s *Inboxes) HearInboxes(ctx context.Context, connected func(), received func(payload string)) error {
	l, err := s.db.Listen(ctx, "", inboxChannel)
	if err != nil {
		return err
	}
	defer l.Close(context.WithoutCancel(ctx))
	connected()
	for {
		_, payload, err := l.Next(ctx)
		if err != nil {
			return err
		}
		received(payload)
	}
}
