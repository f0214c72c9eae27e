package notifydb

import (
	"context"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
)

const (
	// wokenAtOnce is how many messages are made due in one transaction, and wokenMost how many when quiet hours change.
	wokenAtOnce = 1000
	wokenMost   = 10_000

	quietOfUser    = "SELECT number FROM notify_messages WHERE quiet AND user_id = ?"
	quietOfAddress = "SELECT number FROM notify_messages WHERE quiet AND user_id = '' AND lower(email) = ?"
	// What is in a digest that its recipient has chosen is not due.
	quietDue = " AND due > ? AND digest = 0 LIMIT ?"
)

// ChangePreferences implements notify.Store. Messages that wait for the end of quiet hours are decided again when these
// change, and digests of the user's own interval end when the user chooses another one.
func (s *Store) ChangePreferences(ctx context.Context, userID string, c notify.PreferenceChange) error {
	if err := s.Choices.ChangePreferences(ctx, userID, c); err != nil {
		return err
	}
	if err := s.endOwnDigests(ctx, userID, c.Wishes); err != nil || c.Quiet == nil && !c.NoQuiet {
		return err
	}
	of, who := quietOfUser, userID
	if address, is := strings.CutPrefix(userID, notify.AddressScheme); is {
		of, who = quietOfAddress, address
	}
	for range wokenMost / wokenAtOnce {
		n, err := s.wakeQuiet(ctx, of, who)
		if err != nil || n < wokenAtOnce {
			return err
		}
	}
	return nil
}

// wakeQuiet makes some messages that wait for the end of quiet hours due, and returns how many.
func (s *Store) wakeQuiet(ctx context.Context, of, who string) (n int, err error) {
	due := s.steady()
	err = s.lock(ctx, func(tx *db.Tx) error {
		numbers, err := db.All(tx, query.ScanNumber, of+quietDue, who, db.Nanos(due), wokenAtOnce)
		n = len(numbers)
		if err != nil || n == 0 {
			return err
		}
		// They are locked in the order of Finish, which may have changed some meanwhile.
		numbers, err = db.All(tx, query.ScanNumber, "SELECT number FROM notify_messages WHERE "+
			query.NumbersIn(tx.Dialect(), "number")+" AND quiet AND digest = 0 ORDER BY number"+query.ForUpdate(tx.Dialect()),
			query.NumberList(tx.Dialect(), numbers))
		if err != nil {
			return err
		}
		_, err = tx.Exec("UPDATE notify_messages SET due = ? WHERE "+query.NumbersIn(tx.Dialect(), "number"), db.Nanos(due),
			query.NumberList(tx.Dialect(), numbers))
		return err
	})
	if err == nil && n > 0 {
		s.held.queued(notify.PriorityRetry, due)
	}
	return n, err
}

// endOwnDigests makes digests due that collect at an interval that a user has no longer chosen.
func (s *Store) endOwnDigests(ctx context.Context, userID string, wishes map[notify.KindRef]notify.Wish) error {
	to := notify.Recipient{UserID: userID}
	if address, is := strings.CutPrefix(userID, notify.AddressScheme); is {
		to = notify.Recipient{Email: address}
	}
	due := db.Nanos(s.steady())
	for ref, wish := range wishes {
		if wish.Digest == nil {
			continue
		}
		err := s.lock(ctx, func(tx *db.Tx) error {
			for to.Channel = range notify.ChannelID(notify.ChannelCount) {
				for _, name := range notify.OwnDigests(*wish.Digest) {
					if _, err := tx.Exec("UPDATE notify_digests SET due = ? WHERE client_id = ? AND kind_id = ? AND channel = ? "+
						"AND recipient = ? AND name = ? AND sealed = 0 AND due > ?", due, ref.ClientID, ref.KindID,
						int(to.Channel), repeats.MemberOf(to), name, due); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
