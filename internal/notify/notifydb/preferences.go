package notifydb

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// Preferences implements notify.Store. global reports that the user
// unsubscribed from everything. The kinds are sorted by client and id.
func (s *Store) Preferences(ctx context.Context, userID string) (global bool, kinds []notify.Preference, err error) {
	kinds, err = view(ctx, s, func(tx *db.Tx) ([]notify.Preference, error) {
		own, err := matching(tx, scanNumber,
			"SELECT COUNT(*) FROM notify_unsubscribes WHERE user_id = ? AND client_id = '' AND kind_id = ''", userID)
		if err != nil || len(own) == 0 {
			return nil, err
		}
		global = own[0] > 0
		return db.All(tx, func(row db.Scanner) (p notify.Preference, err error) {
			err = row.Scan(&p.ClientID, &p.ID, &p.Description, &p.Critical, &p.TemplateID, &p.SourceDescription,
				&p.Unsubscribed)
			return p, err
		}, `SELECT k.client_id, k.id, k.description, k.critical, k.template_id, c.description, u.user_id IS NOT NULL
			FROM notify_receipts r
			JOIN notify_kinds k ON k.client_id = r.client_id
			JOIN notify_clients c ON c.id = k.client_id
			LEFT JOIN notify_unsubscribes u ON u.user_id = r.user_id AND u.client_id = k.client_id AND u.kind_id = k.id
			WHERE r.user_id = ? AND NOT k.critical ORDER BY k.client_id, k.id`, userID)
	})
	if err != nil {
		return global, kinds, err
	}
	kept, err := s.objections(ctx, hashOfSubscriber, []string{userID})
	for _, k := range kept {
		global = global || k.KindRef == notify.KindRef{}
		for i := range kinds {
			if k.KindRef == (notify.KindRef{ClientID: kinds[i].ClientID, KindID: kinds[i].ID}) {
				kinds[i].Unsubscribed = true
			}
		}
	}
	return global, kinds, err
}

// ChangePreferences implements notify.Store.
func (s *Store) ChangePreferences(ctx context.Context, userID string, c notify.PreferenceChange) error {
	hash, err := s.hash(ctx)
	if err != nil {
		return err
	}
	kept := hash(hashOfSubscriber, userID)
	return s.write(ctx, func(tx *db.Tx) error {
		if c.Global != nil {
			if err := subscribe(tx, userID, kept, notify.KindRef{}, !*c.Global); err != nil {
				return err
			}
		}
		for ref, receive := range c.Kinds {
			if err := subscribe(tx, userID, kept, ref, receive); err != nil {
				return err
			}
		}
		return nil
	})
}

// subscribe stores what a user chose. kept is the hash under which earlier choices of theirs may have stayed.
func subscribe(tx *db.Tx, userID, kept string, ref notify.KindRef, receive bool) error {
	statement := insert("notify_unsubscribes", "user_id, client_id, kind_id") +
		" ON CONFLICT (user_id, client_id, kind_id) DO NOTHING"
	if receive {
		statement = "DELETE FROM notify_unsubscribes WHERE user_id = ? AND client_id = ? AND kind_id = ?"
		if _, err := withdraw(tx, kept, ref); err != nil {
			return err
		}
	}
	_, err := tx.Exec(statement, userID, ref.ClientID, ref.KindID)
	return err
}

// Unsubscribed implements notify.Store.
func (s *Store) Unsubscribed(ctx context.Context, of []notify.Subscription) (map[notify.Subscription]bool, error) {
	users := make([]string, len(of))
	for i, o := range of {
		users[i] = o.UserID
	}
	list, err := textList(users)
	if err != nil {
		return nil, err
	}
	// A user's rows are few and next to each other, so all of them are read.
	rows, err := read(ctx, s, func(tx *db.Tx) ([]notify.Subscription, error) {
		return db.All(tx, scanSubscription, "SELECT user_id, client_id, kind_id FROM notify_unsubscribes WHERE "+
			textsIn(tx.Dialect(), "user_id"), list)
	})
	if err != nil {
		return nil, err
	}
	kept, err := s.objections(ctx, hashOfSubscriber, users)
	if err != nil {
		return nil, err
	}
	rows = append(rows, kept...)
	left := make(map[notify.Subscription]bool, len(rows))
	for _, u := range rows {
		left[u] = true
	}
	set := map[notify.Subscription]bool{}
	for _, o := range of {
		if left[o] || left[notify.Subscription{UserID: o.UserID}] {
			set[o] = true
		}
	}
	return set, nil
}

// Suppressed implements notify.Store.
func (s *Store) Suppressed(ctx context.Context, emails []string) (map[string]bool, error) {
	lowered := make([]string, len(emails))
	for i, e := range emails {
		lowered[i] = e
		if storable(e) { // ToLower would repair invalid UTF-8
			lowered[i] = strings.ToLower(e)
		}
	}
	list, err := textList(lowered)
	if err != nil {
		return nil, err
	}
	kept, err := s.objections(ctx, hashOfAddress, lowered)
	if err != nil {
		return nil, err
	}
	return read(ctx, s, func(tx *db.Tx) (map[string]bool, error) {
		hits, err := db.All(tx, scanText, "SELECT email FROM notify_suppressions WHERE "+textsIn(tx.Dialect(), "email"), list)
		if err != nil {
			return nil, err
		}
		lower := make(map[string]bool, len(hits))
		for _, e := range hits {
			lower[e] = true
		}
		for _, k := range kept {
			lower[k.UserID] = true
		}
		set := make(map[string]bool, len(hits))
		for i, e := range emails {
			if lower[lowered[i]] {
				set[e] = true
			}
		}
		return set, nil
	})
}

const suppressionColumns = "email, reason, source, created"

func scanSuppression(row db.Scanner) (p notify.Suppression, err error) {
	err = row.Scan(&p.Email, &p.Reason, &p.Source, moment{&p.Created})
	return p, err
}

// Suppress implements notify.Store. The newest reason stays.
func (s *Store) Suppress(ctx context.Context, all ...notify.Suppression) error {
	for _, p := range all {
		if err := allStorable(p.Email); err != nil {
			return err
		}
	}
	// All processes insert addresses in the same order, to avoid deadlocks.
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b notify.Suppression) int {
		return strings.Compare(strings.ToLower(a.Email), strings.ToLower(b.Email))
	})
	return s.write(ctx, func(tx *db.Tx) error {
		for _, p := range all {
			_, err := tx.Exec(insert("notify_suppressions", suppressionColumns)+` ON CONFLICT (email) DO UPDATE SET
					reason = excluded.reason, source = excluded.source, created = excluded.created`,
				strings.ToLower(p.Email), p.Reason, p.Source, db.Nanos(p.Created))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Suppressions implements notify.Store.
func (s *Store) Suppressions(ctx context.Context, after string, limit int) ([]notify.Suppression, error) {
	return view(ctx, s, func(tx *db.Tx) ([]notify.Suppression, error) {
		return db.All(tx, scanSuppression, "SELECT "+suppressionColumns+" FROM notify_suppressions WHERE "+
			"email > ? ORDER BY email LIMIT ?",
			strings.ToLower(after), limit)
	})
}

// Unsuppress implements notify.Store. It returns ErrNotFound if the address is
// not suppressed.
func (s *Store) Unsuppress(ctx context.Context, email string) error {
	kept, err := s.keptAddress(ctx, email)
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec("DELETE FROM notify_suppressions WHERE email = ?", strings.ToLower(email))
		if err != nil {
			return found(n, err)
		}
		hashed, err := withdraw(tx, kept, notify.KindRef{})
		return changed(n+hashed, err)
	})
}
