package inboxes

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Inbox implements notify.Store.
func (s *Inboxes) Inbox(ctx context.Context, of notify.Owner, after int64, limit int) (notify.InboxState,
	[]notify.Notification, error) {
	all, err := s.ReadInboxes(ctx, []notify.InboxRead{{Owner: of, After: after}}, limit)
	if err != nil {
		return notify.InboxState{}, nil, err
	}
	return all[0].InboxState, all[0].Changed, nil
}

// ReadInboxes implements notify.Store. It takes three statements for a client, however many inboxes it reads, and one
// more for each with many changes.
func (s *Inboxes) ReadInboxes(ctx context.Context, reads []notify.InboxRead, limit int) ([]notify.InboxChanges, error) {
	clients := map[string]*clientRead{}
	var order []*clientRead
	for i, r := range reads {
		c := clients[r.ClientID]
		if c == nil {
			c = &clientRead{client: r.ClientID, limit: limit, at: map[string][]int{}}
			clients[r.ClientID] = c
			order = append(order, c)
		}
		c.at[r.UserID] = append(c.at[r.UserID], i)
		c.users = append(c.users, r.UserID)
	}
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.InboxChanges, error) {
		all := make([]notify.InboxChanges, len(reads))
		for _, c := range order {
			if !query.Storable(c.client) {
				continue // it has no inboxes
			}
			if err := c.read(tx, reads, all); err != nil {
				return nil, err
			}
		}
		return all, nil
	})
}

// clientRead reads inboxes of one client.
type clientRead struct {
	client string
	users  []string
	limit  int
	at     map[string][]int // where each user is in the list that was asked for
}

func (c *clientRead) read(tx *db.Tx, reads []notify.InboxRead, all []notify.InboxChanges) error {
	list, err := query.TextList(c.users)
	if err != nil {
		return err
	}
	in := " AND " + query.TextsIn(tx.Dialect(), "user_id")
	_, err = db.All(tx, func(row db.Scanner) (st notify.InboxState, err error) {
		var user string
		err = row.Scan(&user, &st.Change, &st.Reset)
		for _, i := range c.at[user] {
			all[i].InboxState = st
		}
		return st, err
	}, "SELECT user_id, change, reset FROM notify_inboxes WHERE client_id = ?"+in, c.client, list)
	if err != nil {
		return err
	}
	_, err = db.All(tx, func(row db.Scanner) (unread int, err error) {
		var user string
		err = row.Scan(&user, &unread)
		for _, i := range c.at[user] {
			all[i].Unread = unread
		}
		return unread, err
	}, "SELECT user_id, COUNT(*) FROM notify_inbox WHERE client_id = ? AND read_at = 0 AND archived_at = 0"+in+
		" GROUP BY user_id", c.client, list)
	if err != nil || c.limit <= 0 {
		return err
	}
	return c.changes(tx, reads, all)
}

// changes reads what changed. An inbox with more changes than the limit is read by itself, so that the others are not
// read as far back as it is; a notification that changed often is one row of it.
func (c *clientRead) changes(tx *db.Tx, reads []notify.InboxRead, all []notify.InboxChanges) error {
	var few []string
	var most int64
	for user, at := range c.at {
		for _, i := range at {
			switch behind := all[i].Change - reads[i].After; {
			case behind <= 0:
			case behind > int64(c.limit):
				var err error
				all[i].Changed, err = db.All(tx, scanNotification, "SELECT "+notificationColumns+" FROM notify_inbox WHERE "+
					"client_id = ? AND user_id = ? AND change > ? ORDER BY change LIMIT ?", c.client, user, reads[i].After, c.limit)
				if err != nil {
					return err
				}
			default:
				few, most = append(few, user), max(most, behind)
			}
		}
	}
	if len(few) == 0 {
		return nil
	}
	list, err := query.TextList(few)
	if err != nil {
		return err
	}
	_, err = db.All(tx, func(row db.Scanner) (notify.Notification, error) {
		n, err := scanNotification(row)
		for _, i := range c.at[n.UserID] {
			if behind := all[i].Change - reads[i].After; n.Change > reads[i].After && behind <= int64(c.limit) {
				all[i].Changed = append(all[i].Changed, n)
			}
		}
		return n, err
	}, "SELECT "+recentColumns+" FROM notify_inboxes i JOIN notify_inbox n ON n.client_id = i.client_id AND n.user_id = "+
		"i.user_id AND n.change > i.change - ? WHERE i.client_id = ? AND "+query.TextsIn(tx.Dialect(), "i.user_id")+
		" ORDER BY n.user_id, n.change", most, c.client, list)
	return err
}
