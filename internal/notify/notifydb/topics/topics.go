package topics

import (
	"context"
	"crypto/rand"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/catalog"
	"ingot/internal/notify/notifydb/query"
)

// Topics implements the part of notify.Store that is about topics. It is safe for concurrent use.
type Topics struct {
	db      *db.DB
	catalog *catalog.Catalog
	hasher  *query.Hasher
	now     func() time.Time
}

// New returns the topics in a database with the tables of notifydb.
func New(d *db.DB, c *catalog.Catalog, hasher *query.Hasher, now func() time.Time) *Topics {
	return &Topics{db: d, catalog: c, hasher: hasher, now: now}
}

const topicColumns = "client_id, name, description, closed, subscribers, created, updated"

func topicFields(t *notify.Topic) []any {
	return []any{&t.ClientID, &t.Name, &t.Description, &t.Closed, &t.Subscribers, query.Moment(&t.Created),
		query.Moment(&t.Updated)}
}

func scanTopic(row db.Scanner) (t notify.Topic, err error) {
	err = row.Scan(topicFields(&t)...)
	return t, err
}

// SetTopic implements notify.Store.
func (s *Topics) SetTopic(ctx context.Context, t notify.Topic) (created bool, err error) {
	if err := query.AllStorable(t.ClientID, t.Name, t.Description); err != nil {
		return false, err
	}
	err = s.catalog.Define(ctx, t.ClientID, func(tx *db.Tx) error {
		n, err := tx.Exec("UPDATE notify_topics SET description = ?, closed = ?, updated = ? WHERE client_id = ? AND "+
			"name = ?", t.Description, t.Closed, db.Nanos(t.Updated), t.ClientID, t.Name)
		if created = n == 0; err != nil || !created {
			return err
		}
		have, err := query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_topics WHERE client_id = ?", t.ClientID)
		if err != nil {
			return err
		}
		if have >= notify.MaxTopics {
			return notify.ErrTooMany
		}
		_, err = tx.Exec(query.Insert("notify_topics", "id, held, "+topicColumns), rand.Text(), 0, t.ClientID, t.Name,
			t.Description, t.Closed, 0, db.Nanos(t.Created), db.Nanos(t.Updated))
		return err
	})
	return created, err
}

// Topic implements notify.Store.
func (s *Topics) Topic(ctx context.Context, ref notify.TopicRef) (notify.Topic, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) (notify.Topic, error) {
		return query.One(tx, scanTopic, "SELECT "+topicColumns+" FROM notify_topics WHERE client_id = ? AND name = ?",
			ref.ClientID, ref.Name)
	})
}

// ListTopics implements notify.Store.
func (s *Topics) ListTopics(ctx context.Context, clientID, after string, limit int) ([]notify.Topic, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Topic, error) {
		return query.Matching(tx, scanTopic, "SELECT "+topicColumns+" FROM notify_topics WHERE client_id = ? AND name > ? "+
			"ORDER BY name LIMIT ?", clientID, after, limit)
	})
}

const (
	// deletedBatch limits the members that one transaction deletes, and deletedAtOnce the transactions of a request.
	deletedBatch  = 1000
	deletedAtOnce = 20
)

// DeleteTopic implements notify.Store. From the first transaction on, the topic does not exist for anyone.
func (s *Topics) DeleteTopic(ctx context.Context, ref notify.TopicRef) error {
	id := ""
	err := s.catalog.Write(ctx, func(tx *db.Tx) (err error) {
		id, err = lockTopic(tx, ref)
		if err != nil {
			return err
		}
		// What is not deleted yet counts in the limit of the client, which the description names from now on.
		_, err = tx.Exec("UPDATE notify_topics SET client_id = '', name = id, description = client_id WHERE id = ?", id)
		return err
	})
	if err != nil {
		return err
	}
	return s.empty(ctx, id, deletedAtOnce)
}

// lockTopic returns the id of a topic, whose counts the transaction may change.
func lockTopic(tx *db.Tx, ref notify.TopicRef) (string, error) {
	return query.One(tx, query.ScanText, "SELECT id FROM notify_topics WHERE client_id = ? AND name = ?"+
		query.ForUpdate(tx.Dialect()), ref.ClientID, ref.Name)
}

// deleteMembers deletes the first members of a topic. It is a range, because PostgreSQL would read all of them for a
// list.
const deleteMembers = "DELETE FROM notify_topic_members WHERE topic = ? AND id <= (SELECT MAX(id) FROM " +
	"(SELECT id FROM notify_topic_members WHERE topic = ? ORDER BY id LIMIT ?) AS first)"

// empty deletes the members of a deleted topic in some transactions, and the topic when none is left.
func (s *Topics) empty(ctx context.Context, id string, steps int) error {
	for range steps {
		var n int64
		err := query.Lock(ctx, s.db, func(tx *db.Tx) (err error) {
			if err := query.UseIndexes(tx); err != nil {
				return err
			}
			n, err = tx.Exec(deleteMembers, id, id, deletedBatch)
			if err != nil {
				return err
			}
			if n == deletedBatch {
				_, err = tx.Exec("UPDATE notify_topics SET held = held - ? WHERE id = ?", n, id)
				return err
			}
			_, err = tx.Exec("DELETE FROM notify_topics WHERE id = ?", id)
			return err
		})
		if err != nil || n < deletedBatch {
			return err
		}
	}
	return nil
}

// PurgeTopics deletes what is left of deleted topics.
func (s *Topics) PurgeTopics(ctx context.Context) error {
	ids, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]string, error) {
		return db.All(tx, query.ScanText, "SELECT id FROM notify_topics WHERE client_id = ''")
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := s.empty(ctx, id, notify.MaxSubscribers/deletedBatch+1); err != nil {
			return err
		}
	}
	return nil
}
