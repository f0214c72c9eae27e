package preferences

import (
	"context"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/catalog"
	"ingot/internal/notify/notifydb/query"
)

// Preferences implements notify.Store. global reports that the user
// unsubscribed from everything. The kinds are sorted by client and id.
func (s *Choices) Preferences(ctx context.Context, userID string) (global bool, kinds []notify.Preference, err error) {
	kinds, err = query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Preference, error) {
		own, err := query.Matching(tx, query.ScanNumber,
			"SELECT COUNT(*) FROM notify_unsubscribes WHERE user_id = ? AND client_id = '' AND kind_id = ''", userID)
		if err != nil || len(own) == 0 {
			return nil, err
		}
		global = own[0] > 0
		return db.All(tx, func(row db.Scanner) (p notify.Preference, err error) {
			p.Kind, err = catalog.ScanKind(query.Longer(row, &p.SourceDescription, &p.Unwanted, &p.Digest,
				&p.Choice.Tracking))
			return p, err
		}, `SELECT k.client_id, k.id, k.description, k.critical, k.template_id, k.channels, k.workflow, k.digest, k.throttle, k.kept,
				k.tracking, c.description, COALESCE(u.channels, 0), COALESCE(u.digest, 0), COALESCE(u.tracking, FALSE)
			FROM notify_receipts r
			JOIN notify_kinds k ON k.client_id = r.client_id
			JOIN notify_clients c ON c.id = k.client_id
			LEFT JOIN notify_unsubscribes u ON u.user_id = r.user_id AND u.client_id = k.client_id AND u.kind_id = k.id
			WHERE r.user_id = ? AND NOT k.critical ORDER BY k.client_id, k.id`, userID)
	})
	if err != nil {
		return global, kinds, err
	}
	kept, err := s.addKept(ctx, userID, kinds)
	return global || kept, kinds, err
}

// CampaignPreferences implements notify.Store. They are sorted by client and id.
func (s *Choices) CampaignPreferences(ctx context.Context, userID string, further ...string) ([]notify.Preference,
	error) {
	list, err := query.TextList(further)
	if err != nil {
		return nil, err
	}
	types, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Preference, error) {
		return query.Matching(tx, func(row db.Scanner) (notify.Preference, error) {
			p := notify.Preference{CampaignType: true}
			err := row.Scan(&p.ClientID, &p.ID, &p.Description, &p.Critical, &p.Channels, &p.SourceDescription, &p.Unwanted)
			return p, err
		}, `SELECT t.client_id, t.id, t.description, t.critical, t.channels, s.name, COALESCE(u.channels, 0)
			FROM notify_campaign_types t
			JOIN notify_senders s ON s.id = t.sender_id
			LEFT JOIN notify_unsubscribes u ON u.user_id = ? AND u.client_id = '' AND u.kind_id = t.id
			WHERE NOT t.critical AND (t.client_id IN (SELECT client_id FROM notify_receipts WHERE user_id = ?) OR `+
			query.TextsIn(tx.Dialect(), "t.id")+") ORDER BY t.client_id, t.id", userID, userID, list)
	})
	if err != nil {
		return nil, err
	}
	_, err = s.addKept(ctx, userID, types)
	return types, err
}

// addKept adds what stays of an erased user's choices, and reports whether they unsubscribed from everything.
func (s *Choices) addKept(ctx context.Context, userID string, to []notify.Preference) (global bool, err error) {
	kept, err := s.objections(ctx, hashOfSubscriber, []string{userID})
	for _, k := range kept {
		global = global || k.KindRef == notify.KindRef{}
		for i := range to {
			if k.KindRef == to[i].Ref() {
				to[i].Unwanted |= k.Unwanted
			}
		}
	}
	return global, err
}

// ChangePreferences implements notify.Store.
func (s *Choices) ChangePreferences(ctx context.Context, userID string, c notify.PreferenceChange) error {
	hash, err := s.hash(ctx)
	if err != nil {
		return err
	}
	kept := hash(hashOfSubscriber, userID)
	member, err := s.topics.MemberOf(ctx, userID)
	if err != nil {
		return err
	}
	wholly := func(receive bool) func(notify.Choice) notify.Choice {
		return func(c notify.Choice) notify.Choice {
			c.Unwanted = 0
			if !receive {
				c.Unwanted = notify.UnwantedAll
			}
			return c
		}
	}
	return query.Write(ctx, s.db, func(tx *db.Tx) error {
		if c.Global != nil {
			if err := choose(tx, userID, kept, notify.KindRef{}, wholly(!*c.Global)); err != nil {
				return err
			}
		}
		for ref, receive := range c.Kinds {
			if err := choose(tx, userID, kept, ref, wholly(receive)); err != nil {
				return err
			}
		}
		for ref, wish := range c.Wishes {
			if err := choose(tx, userID, kept, ref,
				func(c notify.Choice) notify.Choice { return c.After(wish) }); err != nil {
				return err
			}
		}
		if err := s.topics.Choose(tx, member, c.Topics); err != nil {
			return err
		}
		if c.Quiet == nil && !c.NoQuiet {
			return nil
		}
		return setQuiet(tx, userID, c.Quiet)
	})
}

// choose changes what a user has chosen. kept is the hash under which earlier choices of theirs may have stayed.
func choose(tx *db.Tx, userID, kept string, ref notify.KindRef, change func(notify.Choice) notify.Choice) error {
	stored, err := db.All(tx, scanChoice, `SELECT channels, digest, tracking FROM notify_unsubscribes WHERE user_id = ? AND
			client_id = ? AND kind_id = ?
		UNION ALL SELECT channels, 0, FALSE FROM notify_objections WHERE hash = ? AND client_id = ? AND kind_id = ?`,
		userID, ref.ClientID, ref.KindID, kept, ref.ClientID, ref.KindID)
	if err != nil {
		return err
	}
	var before notify.Choice
	for _, c := range stored {
		before.Unwanted |= c.Unwanted
		before.Digest = max(before.Digest, c.Digest) // one of them has none
		before.Tracking = before.Tracking || c.Tracking
	}
	after := change(before)
	if after == before {
		return nil
	}
	if _, err := withdraw(tx, kept, ref); err != nil {
		return err
	}
	if after == (notify.Choice{}) {
		_, err = tx.Exec("DELETE FROM notify_unsubscribes WHERE user_id = ? AND client_id = ? AND kind_id = ?", userID,
			ref.ClientID, ref.KindID)
		return err
	}
	_, err = tx.Exec(query.Insert("notify_unsubscribes", "user_id, client_id, kind_id, channels, digest, tracking")+
		" ON CONFLICT (user_id, client_id, kind_id) DO UPDATE SET channels = excluded.channels, digest = excluded.digest, "+
		"tracking = excluded.tracking",
		userID, ref.ClientID, ref.KindID, int64(after.Unwanted), int64(after.Digest), after.Tracking)
	return err
}

// Unsubscribed implements notify.Store.
func (s *Choices) Unsubscribed(ctx context.Context, of []notify.Subscription) (map[notify.Subscription]notify.Choice,
	error) {
	users := make([]string, len(of))
	for i, o := range of {
		users[i] = o.UserID
	}
	list, err := query.TextList(users)
	if err != nil {
		return nil, err
	}
	// A user's rows are few and next to each other, so all of them are read.
	rows, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]objection, error) {
		return db.All(tx, scanObjection, "SELECT user_id, client_id, kind_id, channels, digest, tracking FROM "+
			"notify_unsubscribes WHERE "+query.TextsIn(tx.Dialect(), "user_id"), list)
	})
	if err != nil {
		return nil, err
	}
	kept, err := s.objections(ctx, hashOfSubscriber, users)
	if err != nil {
		return nil, err
	}
	left := make(map[notify.Subscription]notify.Choice, len(rows)+len(kept))
	for _, u := range append(rows, kept...) {
		c := left[u.Subscription]
		c.Unwanted |= u.Unwanted
		c.Digest = max(c.Digest, u.Digest)
		c.Tracking = c.Tracking || u.Tracking
		left[u.Subscription] = c
	}
	set := map[notify.Subscription]notify.Choice{}
	for _, o := range of {
		c := left[o]
		c.Unwanted |= left[notify.Subscription{UserID: o.UserID}].Unwanted
		if c != (notify.Choice{}) {
			set[o] = c
		}
	}
	return set, nil
}

// Suppressed implements notify.Store.
func (s *Choices) Suppressed(ctx context.Context, emails []string) (map[string]bool, error) {
	lowered := make([]string, len(emails))
	for i, e := range emails {
		lowered[i] = e
		if query.Storable(e) { // ToLower would repair invalid UTF-8
			lowered[i] = strings.ToLower(e)
		}
	}
	list, err := query.TextList(lowered)
	if err != nil {
		return nil, err
	}
	kept, err := s.objections(ctx, hashOfAddress, lowered)
	if err != nil {
		return nil, err
	}
	return query.Read(ctx, s.db, func(tx *db.Tx) (map[string]bool, error) {
		hits, err := db.All(tx, query.ScanText, "SELECT email FROM notify_suppressions WHERE "+
			query.TextsIn(tx.Dialect(), "email"), list)
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
	err = row.Scan(&p.Email, &p.Reason, &p.Source, query.Moment(&p.Created))
	return p, err
}

// Suppress implements notify.Store. The newest reason stays.
func (s *Choices) Suppress(ctx context.Context, all ...notify.Suppression) error {
	for _, p := range all {
		if err := query.AllStorable(p.Email); err != nil {
			return err
		}
	}
	// All processes insert addresses in the same order, to avoid deadlocks.
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b notify.Suppression) int {
		return strings.Compare(strings.ToLower(a.Email), strings.ToLower(b.Email))
	})
	return query.Write(ctx, s.db, func(tx *db.Tx) error {
		for _, p := range all {
			_, err := tx.Exec(query.Insert("notify_suppressions", suppressionColumns)+` ON CONFLICT (email) DO UPDATE SET
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
func (s *Choices) Suppressions(ctx context.Context, after string, limit int) ([]notify.Suppression, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Suppression, error) {
		return db.All(tx, scanSuppression, "SELECT "+suppressionColumns+" FROM notify_suppressions WHERE "+
			"email > ? ORDER BY email LIMIT ?",
			strings.ToLower(after), limit)
	})
}

// Unsuppress implements notify.Store. It returns ErrNotFound if the address is
// not suppressed.
func (s *Choices) Unsuppress(ctx context.Context, email string) error {
	kept, err := s.keptAddress(ctx, email)
	if err != nil {
		return err
	}
	return query.Write(ctx, s.db, func(tx *db.Tx) error {
		n, err := tx.Exec("DELETE FROM notify_suppressions WHERE email = ?", strings.ToLower(email))
		if err != nil {
			return query.Found(n, err)
		}
		hashed, err := withdraw(tx, kept, notify.KindRef{})
		return query.Changed(n+hashed, err)
	})
}

// SuppressionsOf returns which of the addresses, in lower case, are suppressed.
func (s *Choices) SuppressionsOf(ctx context.Context, addresses []string) ([]notify.Suppression, error) {
	list, err := query.TextList(addresses)
	if err != nil {
		return nil, err
	}
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Suppression, error) {
		return db.All(tx, scanSuppression, "SELECT "+suppressionColumns+" FROM notify_suppressions WHERE "+
			query.TextsIn(tx.Dialect(), "email")+" ORDER BY email", list)
	})
}
