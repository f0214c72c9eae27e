package preferences

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const (
	hashOfSubscriber = "unsubscribed"
	hashOfAddress    = "suppressed"
)

// hash returns the function that makes the hashes in notify_objections.
func (s *Choices) hash(ctx context.Context) (func(of, text string) string, error) {
	hash, err := s.hasher.Hash(ctx)
	return func(of, text string) string { return hash("notify objection: " + of + "\x00" + text) }, err
}

// objection is a row of what a user has chosen.
type objection struct {
	notify.Subscription
	notify.Choice
}

func scanObjection(row db.Scanner) (o objection, err error) {
	err = row.Scan(&o.UserID, &o.ClientID, &o.KindID, &o.Unwanted, &o.Digest, &o.Tracking)
	return o, err
}

func scanChoice(row db.Scanner) (c notify.Choice, err error) {
	err = row.Scan(&c.Unwanted, &c.Digest, &c.Tracking)
	return c, err
}

// objections returns what stays of erased persons, by the given texts. It costs one small query as long as there is
// none of anybody.
func (s *Choices) objections(ctx context.Context, of string, texts []string) ([]objection, error) {
	some, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]string, error) {
		return db.All(tx, query.ScanText, "SELECT hash FROM notify_objections LIMIT 1")
	})
	if err != nil || len(some) == 0 || len(texts) == 0 {
		return nil, err
	}
	hash, err := s.hash(ctx)
	if err != nil {
		return nil, err
	}
	plain, all := make(map[string]string, len(texts)), make([]string, 0, len(texts))
	for _, t := range texts {
		h := hash(of, t)
		plain[h] = t
		all = append(all, h)
	}
	list, err := query.TextList(all)
	if err != nil {
		return nil, err
	}
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]objection, error) {
		return db.All(tx, func(row db.Scanner) (objection, error) {
			o, err := scanObjection(row)
			o.UserID = plain[o.UserID]
			return o, err
		}, "SELECT hash, client_id, kind_id, channels, 0, FALSE FROM notify_objections WHERE "+
			query.TextsIn(tx.Dialect(), "hash")+" ORDER BY client_id, kind_id", list)
	})
}

// withdraw deletes what stays of a person because of what they chose now.
func withdraw(tx *db.Tx, hash string, ref notify.KindRef) (int64, error) {
	return tx.Exec("DELETE FROM notify_objections WHERE hash = ? AND client_id = ? AND kind_id = ?", hash, ref.ClientID,
		ref.KindID)
}

// A user who comes back and is erased again has further objections.
var newObjection = query.Insert("notify_objections", "hash, client_id, kind_id, source, created, channels") +
	" ON CONFLICT (hash, client_id, kind_id) DO UPDATE SET channels = notify_objections.channels | excluded.channels"

// ownSubscriptions returns the condition on what a person unsubscribed from, as far as it belongs to the client.
func ownSubscriptions(p notify.Person, subscriber string) (string, []any) {
	if p.All {
		return "user_id = ?", []any{subscriber}
	}
	return "user_id = ? AND (client_id = ? OR client_id = '' AND kind_id IN (SELECT id FROM notify_campaign_types " +
		"WHERE client_id = ?))", []any{subscriber, p.ClientID, p.ClientID}
}

// ErasePreferences replaces what the person unsubscribed from by hashes, so that it stays in effect.
func (s *Choices) ErasePreferences(ctx context.Context, p notify.Person, count Count) error {
	hash, err := s.hash(ctx)
	if err != nil {
		return err
	}
	for _, subscriber := range p.Subscribers() {
		where, args := ownSubscriptions(p, subscriber)
		err := query.Write(ctx, s.db, func(tx *db.Tx) error {
			gone, err := query.Matching(tx, scanObjection, "DELETE FROM notify_unsubscribes WHERE "+where+
				" RETURNING user_id, client_id, kind_id, channels, digest, tracking", args...)
			if err != nil {
				return err
			}
			// How messages were collected is forgotten, and that opens and clicks may be counted.
			gone = slices.DeleteFunc(gone, func(o objection) bool { return o.Unwanted == 0 })
			for _, g := range gone {
				if _, err := tx.Exec(newObjection, hash(hashOfSubscriber, subscriber), g.ClientID, g.KindID, "unsubscribed",
					db.Nanos(s.now()), int64(g.Unwanted)); err != nil {
					return err
				}
			}
			return count(tx, len(gone))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// EraseQuietHours deletes the person's quiet hours, which belong to no client.
func (s *Choices) EraseQuietHours(ctx context.Context, p notify.Person) error {
	return query.Write(ctx, s.db, func(tx *db.Tx) error {
		for _, subscriber := range p.Subscribers() {
			if err := setQuiet(tx, subscriber, nil); err != nil {
				return err
			}
		}
		return nil
	})
}

// EraseSuppressions replaces suppressed addresses by hashes, so that they stay suppressed. The list
// belongs to no client.
func (s *Choices) EraseSuppressions(ctx context.Context, addresses []string, count Count) error {
	hash, err := s.hash(ctx)
	if err != nil {
		return err
	}
	for _, address := range addresses {
		err := query.Write(ctx, s.db, func(tx *db.Tx) error {
			gone, err := query.Matching(tx, query.ScanText, "DELETE FROM notify_suppressions WHERE email = ? RETURNING source",
				address)
			if err != nil {
				return err
			}
			for _, source := range gone {
				if _, err := tx.Exec(newObjection, hash(hashOfAddress, address), "", "", source, db.Nanos(s.now()),
					int64(notify.UnwantedAll)); err != nil {
					return err
				}
			}
			return count(tx, len(gone))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// keptAddress returns the hash of an address that may be suppressed.
func (s *Choices) keptAddress(ctx context.Context, email string) (string, error) {
	hash, err := s.hash(ctx)
	if err != nil {
		return "", err
	}
	return hash(hashOfAddress, strings.ToLower(email)), nil
}

// ObjectionsOf returns what a person unsubscribed from, also what stayed of earlier erasures.
func (s *Choices) ObjectionsOf(ctx context.Context, p notify.Person) (all []notify.Objection, err error) {
	for _, subscriber := range p.Subscribers() {
		where, args := ownSubscriptions(p, subscriber)
		found, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Objection, error) {
			return query.Matching(tx, func(row db.Scanner) (notify.Objection, error) {
				o, err := scanObjection(row)
				return notify.Objection{Subscription: o.Subscription, Choice: o.Choice}, err
			}, "SELECT user_id, client_id, kind_id, channels, digest, tracking FROM notify_unsubscribes WHERE "+where+
				" ORDER BY client_id, kind_id", args...)
		})
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		kept, err := s.objections(ctx, hashOfSubscriber, []string{subscriber})
		if err != nil {
			return nil, err
		}
		for _, k := range kept {
			if p.All || k.ClientID == p.ClientID {
				all = append(all, notify.Objection{Subscription: k.Subscription, Choice: k.Choice, Kept: true})
			}
		}
	}
	return all, nil
}
