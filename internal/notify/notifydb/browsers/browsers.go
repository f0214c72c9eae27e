package browsers

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/usage"
)

// Browsers implements the part of notify.Store that is about push subscriptions. It is safe for concurrent use.
type Browsers struct {
	db    *db.DB
	usage *usage.Usage
}

// New returns the subscriptions in a database with the tables of notifydb.
func New(d *db.DB, u *usage.Usage) *Browsers { return &Browsers{db: d, usage: u} }

const (
	columns = "id, client_id, user_id, target, label, has, created, updated"
	sealed  = "notify_push.target"
	// usersAtOnce limits the users of a query.
	usersAtOnce = 500
)

// target is what is sealed of a subscription.
type target struct {
	Endpoint string `json:"endpoint"`
	P256dh   []byte `json:"p256dh"`
	Auth     []byte `json:"auth"`
	// Of a device, which has none of these.
	Token   string `json:"token,omitempty"`
	TokenOf string `json:"of,omitempty"`
}

func scan(tx *db.Tx) func(db.Scanner) (notify.PushSubscription, error) {
	return func(row db.Scanner) (s notify.PushSubscription, err error) {
		var text, has string
		if err := row.Scan(&s.ID, &s.ClientID, &s.UserID, &text, &s.Label, &has, query.Moment(&s.Created),
			query.Moment(&s.Updated)); err != nil {
			return s, err
		}
		opened, err := tx.Unseal(sealed, s.ID, text)
		if err != nil {
			return s, err
		}
		var t target
		if err := json.Unmarshal(opened, &t); err != nil {
			return s, err
		}
		s.Endpoint, s.P256dh, s.Auth, s.Token, s.TokenOf = t.Endpoint, t.P256dh, t.Auth, t.Token, t.TokenOf
		s.Has, err = numbers(has)
		return s, err
	}
}

func numbers(text string) (all []int64, err error) {
	for _, one := range strings.Fields(text) {
		n, err := strconv.ParseInt(one, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}

// PushSubscriptions implements notify.Store.
func (s *Browsers) PushSubscriptions(ctx context.Context, clientID string,
	users []string) (map[string][]notify.PushSubscription, error) {
	all := map[string][]notify.PushSubscription{}
	for some := range slices.Chunk(users, usersAtOnce) {
		list, err := query.TextList(some)
		if err != nil {
			return nil, err
		}
		found, err := query.View(ctx, s.db, func(tx *db.Tx) ([]notify.PushSubscription, error) {
			return query.Matching(tx, scan(tx), "SELECT "+columns+" FROM notify_push WHERE client_id = ? AND "+
				query.TextsIn(tx.Dialect(), "user_id")+" ORDER BY updated DESC, id", clientID, list)
		})
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			all[one.UserID] = append(all[one.UserID], one)
		}
	}
	return all, nil
}

// PushSubscriptionsOf implements notify.Store.
func (s *Browsers) PushSubscriptionsOf(ctx context.Context, userID string) ([]notify.PushSubscription, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.PushSubscription, error) {
		return query.Matching(tx, scan(tx), "SELECT "+columns+" FROM notify_push WHERE user_id = ? "+
			"ORDER BY updated DESC, id", userID)
	})
}

// AddPushSubscription implements notify.Store.
func (s *Browsers) AddPushSubscription(ctx context.Context, sub notify.PushSubscription) error {
	text, err := json.Marshal(target{sub.Endpoint, sub.P256dh, sub.Auth, sub.Token, sub.TokenOf})
	if err != nil {
		return err
	}
	if err := query.AllStorable(sub.ClientID, sub.UserID, sub.Label); err != nil {
		return err
	}
	if there, err := s.replace(ctx, sub, text); err != nil || there {
		return err
	}
	stored := false
	err = s.usage.Storing(ctx, sub.ClientID, notify.PushSubscriptionBytes, func() (bool, error) {
		err := query.Lock(ctx, s.db, func(tx *db.Tx) error {
			n, err := tx.Exec(query.Insert("notify_push", "id, client_id, user_id, target, label, created, updated")+
				" ON CONFLICT (id) DO NOTHING", sub.ID, sub.ClientID, sub.UserID, tx.Seal(sealed, sub.ID, text), sub.Label,
				db.Nanos(sub.Created), db.Nanos(sub.Updated))
			stored = n > 0
			return err
		})
		return stored && err == nil, err
	})
	if err != nil {
		return err
	}
	if !stored { // another request was faster: the last one counts
		_, err := s.replace(ctx, sub, text)
		return err
	}
	return s.prune(ctx, sub.Owner)
}

// replace changes a subscription if it is stored.
func (s *Browsers) replace(ctx context.Context, sub notify.PushSubscription, text []byte) (there bool, err error) {
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		n, err := tx.Exec("UPDATE notify_push SET has = CASE WHEN user_id = ? THEN has ELSE '' END, user_id = ?, "+
			"target = ?, label = ?, updated = ? WHERE id = ? AND client_id = ?", sub.UserID, sub.UserID,
			tx.Seal(sealed, sub.ID, text), sub.Label, db.Nanos(sub.Updated), sub.ID, sub.ClientID)
		there = n > 0
		return err
	})
	if err != nil || !there {
		return there, err
	}
	return true, s.prune(ctx, sub.Owner)
}

// freed deletes subscriptions, and returns of whom and how much.
func freed(tx *db.Tx, where string, args ...any) ([]usage.Freed, error) {
	return db.All(tx, usage.ScanFreed, "DELETE FROM notify_push WHERE "+where+" RETURNING client_id, CAST(? AS BIGINT)",
		append(args, notify.PushSubscriptionBytes)...)
}

// prune deletes what a user has too many.
func (s *Browsers) prune(ctx context.Context, of notify.Owner) error {
	n, err := query.Read(ctx, s.db, func(tx *db.Tx) (int64, error) {
		return query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_push WHERE user_id = ? AND client_id = ?",
			of.UserID, of.ClientID)
	})
	if err != nil || n <= notify.MaxPushSubscriptions {
		return err
	}
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		// In one statement: one that is added meanwhile is not among those that are too many.
		return freed(tx, "id IN (SELECT id FROM notify_push WHERE user_id = ? AND client_id = ? "+
			"ORDER BY updated DESC, id LIMIT ? OFFSET ?)", of.UserID, of.ClientID, n, notify.MaxPushSubscriptions)
	})
}

// DeletePushSubscription implements notify.Store.
func (s *Browsers) DeletePushSubscription(ctx context.Context, of notify.Owner, id string) error {
	found := false
	err := s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		gone, err := freed(tx, "id = ? AND user_id = ? AND client_id = ?", id, of.UserID, of.ClientID)
		found = len(gone) > 0
		return gone, err
	})
	if err == nil && !found {
		return notify.ErrNotFound
	}
	return err
}

// PushAccepted implements notify.Store.
func (s *Browsers) PushAccepted(ctx context.Context, message int64, ids []string) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		for _, id := range slices.Sorted(slices.Values(ids)) { // the same order everywhere, to avoid deadlocks
			text, err := query.One(tx, query.ScanText, "SELECT has FROM notify_push WHERE id = ?"+
				query.ForUpdate(tx.Dialect()), id)
			if query.IsNotFound(err) {
				continue
			}
			if err != nil {
				return err
			}
			has := append(strings.Fields(text), strconv.FormatInt(message, 10))
			has = has[max(0, len(has)-notify.MaxPushHas):]
			if _, err := tx.Exec("UPDATE notify_push SET has = ? WHERE id = ?", strings.Join(has, " "), id); err != nil {
				return err
			}
		}
		return nil
	})
}

// BrowsersOf returns the subscriptions of a person.
func (s *Browsers) BrowsersOf(ctx context.Context, p notify.Person) ([]notify.PushSubscription, error) {
	if p.UserID == "" {
		return nil, nil
	}
	all, err := s.PushSubscriptionsOf(ctx, p.UserID)
	return slices.DeleteFunc(all, func(one notify.PushSubscription) bool {
		return !p.All && one.ClientID != p.ClientID
	}), err
}

// EraseBrowsers deletes the subscriptions of a person. count records how many, in the same transaction.
func (s *Browsers) EraseBrowsers(ctx context.Context, p notify.Person, count func(tx *db.Tx, n int) error) error {
	if p.UserID == "" {
		return nil
	}
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		where, args := "user_id = ?", []any{p.UserID}
		if !p.All {
			where, args = where+" AND client_id = ?", append(args, p.ClientID)
		}
		gone, err := freed(tx, where, args...)
		if err != nil {
			return nil, err
		}
		return gone, count(tx, len(gone))
	})
}
