package webhooks

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Hooks implements the part of notify.Store that is about webhooks. It is safe for concurrent use.
type Hooks struct {
	db     *db.DB
	steady func() time.Time
}

// New returns the webhooks in a database with the tables of notifydb. steady is the clock for due times.
func New(d *db.DB, steady func() time.Time) *Hooks { return &Hooks{db: d, steady: steady} }

const (
	webhookColumns = "id, client_id, url, secret, events, created"
	sealedHook     = "notify_webhooks.secret"
)

// CreateWebhook implements notify.Store. It is ErrConflict when the id is
// taken.
func (s *Hooks) CreateWebhook(ctx context.Context, w notify.Webhook) error {
	events := w.Events
	if events == nil {
		events = []notify.Status{}
	}
	return query.Write(ctx, s.db, func(tx *db.Tx) error {
		_, err := tx.Exec(query.Insert("notify_webhooks", webhookColumns),
			w.ID, w.ClientID, w.URL, tx.Seal(sealedHook, w.ID, []byte(w.Secret)), db.JSON[[]notify.Status]{V: events},
			db.Nanos(w.Created))
		return err
	})
}

// Webhooks implements notify.Store. The oldest comes first.
func (s *Hooks) Webhooks(ctx context.Context, clientID string) ([]notify.Webhook, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Webhook, error) {
		return query.Matching(tx, func(row db.Scanner) (w notify.Webhook, err error) {
			var sealed string
			var events db.JSON[[]notify.Status]
			if err := row.Scan(&w.ID, &w.ClientID, &w.URL, &sealed, &events, query.Moment(&w.Created)); err != nil {
				return w, err
			}
			if len(events.V) > 0 {
				w.Events = events.V
			}
			secret, err := tx.Unseal(sealedHook, w.ID, sealed)
			w.Secret = string(secret)
			return w, err
		}, "SELECT "+webhookColumns+" FROM notify_webhooks WHERE client_id = ? ORDER BY created, id", clientID)
	})
}

// DeleteWebhook implements notify.Store.
func (s *Hooks) DeleteWebhook(ctx context.Context, clientID, id string) error {
	return query.Write(ctx, s.db, func(tx *db.Tx) error {
		if err := query.Found(tx.Exec("DELETE FROM notify_webhooks WHERE client_id = ? AND id = ?", clientID,
			id)); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM notify_callbacks WHERE webhook_id = ?", id)
		return err
	})
}

var newCallbacks = query.NewInsertion("notify_callbacks", "id, webhook_id, payload, attempts, due, lease_owner",
	" ON CONFLICT (id) DO NOTHING")

// AddCallbacks stores the webhook calls for messages that became final, in the
// same transaction.
func (s *Hooks) AddCallbacks(tx *db.Tx, final []notify.Claimed, makeCallbacks notify.CallbackMaker) error {
	if len(final) == 0 {
		return nil
	}
	byClient := map[string][]*notify.Claimed{}
	for i := range final {
		client := final[i].Send.ClientID
		byClient[client] = append(byClient[client], &final[i])
	}
	hooks, err := query.Listed(tx, func(row db.Scanner) (w notify.Webhook, err error) {
		var events db.JSON[[]notify.Status]
		err = row.Scan(&w.ID, &w.ClientID, &events)
		w.Events = events.V
		return w, err
	}, "SELECT id, client_id, events FROM notify_webhooks WHERE "+query.TextsIn(tx.Dialect(), "client_id")+
		" ORDER BY created, id",
		slices.Collect(maps.Keys(byClient)))
	if err != nil {
		return err
	}
	now := db.Nanos(s.steady())
	var args []any
	for _, w := range hooks {
		for _, c := range makeCallbacks(w, byClient[w.ClientID]) {
			if err := query.AllStorable(c.ID, string(c.Payload)); err != nil {
				return err
			}
			args = append(args, c.ID, w.ID, string(c.Payload), c.Attempts, now, "")
		}
	}
	return newCallbacks.All(tx, args)
}

// Callbacks implements notify.Store. Calls of deleted webhooks are deleted.
func (s *Hooks) Callbacks(ctx context.Context, owner string, limit int,
	lease time.Duration) ([]notify.Callback, error) {
	now := s.steady()
	due, err := query.View(ctx, s.db, func(tx *db.Tx) ([]int64, error) {
		return db.All(tx, query.ScanNumber, "SELECT due FROM notify_callbacks WHERE due <= ? LIMIT 1", db.Nanos(now))
	})
	if err != nil || len(due) == 0 || limit <= 0 {
		return []notify.Callback{}, err
	}
	var list []notify.Callback
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		list = list[:0]
		all, err := db.All(tx, func(row db.Scanner) (c notify.Callback, err error) {
			var payload string
			err = row.Scan(&c.ID, &c.WebhookID, &payload, &c.Attempts)
			c.Payload = []byte(payload)
			return c, err
		}, "SELECT id, webhook_id, payload, attempts FROM notify_callbacks WHERE due <= ? ORDER BY due, id LIMIT ?"+
			query.SkipLocked(tx.Dialect()), db.Nanos(now), limit)
		if err != nil {
			return err
		}
		hooks := map[string]*notify.Webhook{}
		for _, c := range all {
			hook, err := s.hook(tx, hooks, c.WebhookID)
			if err != nil {
				return err
			}
			if hook == nil {
				if _, err := tx.Exec("DELETE FROM notify_callbacks WHERE id = ?", c.ID); err != nil {
					return err
				}
				continue
			}
			if _, err := tx.Exec("UPDATE notify_callbacks SET due = ?, lease_owner = ? WHERE id = ?", db.Nanos(now.Add(lease)),
				owner, c.ID); err != nil {
				return err
			}
			c.URL, c.Secret = hook.URL, hook.Secret
			list = append(list, c)
		}
		return nil
	})
	if list == nil {
		list = []notify.Callback{}
	}
	return list, err
}

// hook returns a webhook, which is read once per transaction, or nil if it was
// deleted.
func (s *Hooks) hook(tx *db.Tx, known map[string]*notify.Webhook, id string) (*notify.Webhook, error) {
	if w, ok := known[id]; ok {
		return w, nil
	}
	var w notify.Webhook
	var sealed string
	err := tx.QueryRow("SELECT url, secret FROM notify_webhooks WHERE id = ?", id).Scan(&w.URL, &sealed)
	if errors.Is(err, db.ErrNotFound) {
		known[id] = nil
		return nil, nil //nolint:nilnil // the caller knows what it means
	}
	if err != nil {
		return nil, err
	}
	secret, err := tx.Unseal(sealedHook, id, sealed)
	if err != nil {
		return nil, err
	}
	w.Secret = string(secret)
	known[id] = &w
	return &w, nil
}

// FinishCallback implements notify.Store. It is not an error if the call does
// not exist.
func (s *Hooks) FinishCallback(ctx context.Context, id string, attempts int, again time.Time) error {
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		if again.IsZero() {
			_, err := tx.Exec("DELETE FROM notify_callbacks WHERE id = ?", id)
			return err
		}
		_, err := tx.Exec("UPDATE notify_callbacks SET due = ?, attempts = ?, lease_owner = '' WHERE id = ?", db.Nanos(again),
			attempts, id)
		return err
	})
}
