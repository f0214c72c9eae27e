package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Origins implements notify.Store.
func (s *Catalog) Origins(ctx context.Context, clientID string) ([]string, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]string, error) {
		return query.Matching(tx, query.ScanText, "SELECT origin FROM notify_origins WHERE client_id = ? ORDER BY origin",
			clientID)
	})
}

// SetOrigins implements notify.Store.
func (s *Catalog) SetOrigins(ctx context.Context, clientID string, origins []string) error {
	if err := query.AllStorable(append(slices.Clone(origins), clientID)...); err != nil {
		return err
	}
	return s.Define(ctx, clientID, func(tx *db.Tx) error {
		if _, err := tx.Exec("DELETE FROM notify_origins WHERE client_id = ?", clientID); err != nil {
			return err
		}
		for _, origin := range origins {
			if _, err := tx.Exec(query.Insert("notify_origins", "client_id, origin")+
				" ON CONFLICT (client_id, origin) DO NOTHING", clientID, origin); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetChannels implements notify.Store.
func (s *Catalog) SetChannels(ctx context.Context, ref notify.KindRef, c notify.Channels) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		if ref.ClientID == "" {
			return query.Found(tx.Exec("UPDATE notify_campaign_types SET channels = ? WHERE id = ?", int(c), ref.KindID))
		}
		return query.Found(tx.Exec("UPDATE notify_kinds SET channels = ? WHERE client_id = ? AND id = ?", int(c),
			ref.ClientID, ref.KindID))
	})
}

// SetWorkflow implements notify.Store.
func (s *Catalog) SetWorkflow(ctx context.Context, ref notify.KindRef, w *notify.Workflow) error {
	return setRule(ctx, s, "workflow", ref, w)
}

// SetDigestRule implements notify.Store.
func (s *Catalog) SetDigestRule(ctx context.Context, ref notify.KindRef, r *notify.DigestRule) error {
	return setRule(ctx, s, "digest", ref, r)
}

// SetThrottleRule implements notify.Store.
func (s *Catalog) SetThrottleRule(ctx context.Context, ref notify.KindRef, r *notify.ThrottleRule) error {
	return setRule(ctx, s, "throttle", ref, r)
}

// SetKept implements notify.Store.
func (s *Catalog) SetKept(ctx context.Context, ref notify.KindRef, kept time.Duration) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		return query.Found(tx.Exec("UPDATE notify_kinds SET kept = ? WHERE client_id = ? AND id = ?", int(kept/time.Hour),
			ref.ClientID, ref.KindID))
	})
}

// SetTracking implements notify.Store.
func (s *Catalog) SetTracking(ctx context.Context, ref notify.KindRef, t notify.Tracking) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		return query.Found(tx.Exec("UPDATE notify_kinds SET tracking = ? WHERE client_id = ? AND id = ?", int(t),
			ref.ClientID, ref.KindID))
	})
}

// setRule sets a column of a kind to a rule as JSON, or empties it with nil. The rules that the kind then has must fit
// each other, whichever of them are set at the same time.
func setRule[T any](ctx context.Context, s *Catalog, column string, ref notify.KindRef, r *T) error {
	text := ""
	if r != nil {
		encoded, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if text = string(encoded); !query.Storable(text) {
			return query.Unstorable(db.ErrText)
		}
	}
	return s.Define(ctx, ref.ClientID, func(tx *db.Tx) error {
		err := query.Found(tx.Exec("UPDATE notify_kinds SET "+column+" = ? WHERE client_id = ? AND id = ?", text,
			ref.ClientID, ref.KindID))
		if err != nil {
			return err
		}
		k, err := query.One(tx, ScanKind, "SELECT "+kindColumns+" FROM notify_kinds WHERE client_id = ? AND id = ?",
			ref.ClientID, ref.KindID)
		if err != nil {
			return err
		}
		return k.ThrottleRule.Fits(k.DigestRule)
	})
}
