package topics

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Member is a subscriber with the hash that is its place in all topics.
type Member struct{ id, subscriber string }

// MemberOf returns the member for a user's id or an address.
func (s *Topics) MemberOf(ctx context.Context, subscriber string) (Member, error) {
	all, err := s.members(ctx, subscriber)
	return all[0], err
}

func (s *Topics) members(ctx context.Context, subscribers ...string) ([]Member, error) {
	hash, err := s.hasher.Hash(ctx)
	all := make([]Member, len(subscribers))
	for i := 0; err == nil && i < len(all); i++ {
		all[i] = Member{hash("notify topic member: " + subscribers[i])[:query.ShortHash], subscribers[i]}
	}
	return all, err
}

func idsOf(all []Member) []string {
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = m.id
	}
	return ids
}

var newMembers = query.NewInsertion("notify_topic_members", "topic, id, subscriber, active, since", "")

// Subscribe implements notify.Store.
func (s *Topics) Subscribe(ctx context.Context, ref notify.TopicRef, subscribers []string) (notify.Subscribing, error) {
	var did notify.Subscribing
	if err := query.AllStorable(subscribers...); err != nil {
		return did, err
	}
	members, err := s.members(ctx, subscribers...)
	if err != nil {
		return did, err
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.id, b.id) })
	members = slices.Compact(members)
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		did = notify.Subscribing{}
		topic, err := lockTopic(tx, ref)
		if err != nil {
			return err
		}
		there, err := activeOf(tx, topic, idsOf(members))
		if err != nil {
			return err
		}
		var args []any
		for _, m := range members {
			switch active, is := there[m.id]; {
			case !is:
				args = append(args, topic, m.id, m.subscriber, true, db.Nanos(s.now()))
				did.Added++
			case active:
				did.Already++
			default:
				did.Left++
			}
		}
		if did.Added == 0 {
			return nil
		}
		if err := count(tx, topic, did.Added, did.Added); err != nil {
			return err
		}
		if err := checkRoom(tx, ref.ClientID); err != nil {
			return err
		}
		return newMembers.All(tx, args)
	})
	return did, err
}

// activeOf returns which of the members with these ids a topic has, and whether they are subscribed.
func activeOf(tx *db.Tx, topic string, ids []string) (map[string]bool, error) {
	list, err := query.TextList(ids)
	if err != nil {
		return nil, err
	}
	type row struct {
		id     string
		active bool
	}
	rows, err := db.All(tx, func(sc db.Scanner) (r row, err error) {
		err = sc.Scan(&r.id, &r.active)
		return r, err
	}, ActiveMembers(tx.Dialect()), topic, list)
	found := make(map[string]bool, len(rows))
	for _, r := range rows {
		found[r.id] = r.active
	}
	return found, err
}

// ActiveMembers selects members of a topic by a list of ids. PostgreSQL would read all members of the topic for
// query.TextsIn, and looks up each element of an array.
func ActiveMembers(d db.Dialect) string {
	in := query.TextsIn(d, "id")
	if d == db.Postgres {
		in = "id = ANY(ARRAY(SELECT json_array_elements_text(CAST(CAST(? AS TEXT) AS JSON))))"
	}
	return "SELECT id, active FROM notify_topic_members WHERE topic = ? AND " + in
}

// count adds to the numbers of a topic that the transaction has locked.
func count(tx *db.Tx, topic string, subscribers, held int) error {
	_, err := tx.Exec("UPDATE notify_topics SET subscribers = subscribers + ?, held = held + ? WHERE id = ?", subscribers,
		held, topic)
	return err
}

// checkRoom fails if a client has too many members. Those that are added to several topics at the same time do not
// count each other: a few more are possible. Those of deleted topics count until they are deleted too.
func checkRoom(tx *db.Tx, clientID string) error {
	n, err := query.One(tx, query.ScanNumber,
		"SELECT CAST(COALESCE(SUM(held), 0) AS BIGINT) FROM notify_topics WHERE client_id = ? OR client_id = '' AND "+
			"description = ?", clientID, clientID)
	if err == nil && n > notify.MaxSubscribers {
		err = notify.ErrTooMany
	}
	return err
}

// RemoveSubscriber implements notify.Store.
func (s *Topics) RemoveSubscriber(ctx context.Context, ref notify.TopicRef, subscriber string) error {
	m, err := s.MemberOf(ctx, subscriber)
	if err != nil {
		return err
	}
	return query.Lock(ctx, s.db, func(tx *db.Tx) error {
		topic, err := lockTopic(tx, ref)
		if err != nil {
			return err
		}
		if err := query.Changed(tx.Exec("DELETE FROM notify_topic_members WHERE topic = ? AND id = ? AND active", topic,
			m.id)); err != nil {
			return err
		}
		return count(tx, topic, -1, -1)
	})
}

// MembersPage reads a page of the subscribers of a topic.
const MembersPage = "SELECT id, subscriber, since FROM notify_topic_members WHERE topic = ? AND id > ? AND active " +
	"ORDER BY id LIMIT ?"

// TopicMembers implements notify.Store.
func (s *Topics) TopicMembers(ctx context.Context, ref notify.TopicRef, after string, limit int) ([]notify.TopicMember,
	error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.TopicMember, error) {
		topic, err := query.One(tx, query.ScanText, "SELECT id FROM notify_topics WHERE client_id = ? AND name = ?",
			ref.ClientID, ref.Name)
		if err != nil {
			return nil, err
		}
		if err := query.UseIndexes(tx); err != nil {
			return nil, err
		}
		return query.Matching(tx, func(row db.Scanner) (m notify.TopicMember, err error) {
			var subscriber string
			err = row.Scan(&m.ID, &subscriber, query.Moment(&m.Since))
			m.UserID, m.Email = notify.SubscriberOf(subscriber)
			return m, err
		}, MembersPage, topic, after, limit)
	})
}

// choices returns what members chose, and open topics of clients that sent receiver a notification, if it is not empty.
func choices(tx *db.Tx, member Member, receiver string) ([]notify.TopicChoice, error) {
	return query.Matching(tx, func(row db.Scanner) (c notify.TopicChoice, err error) {
		var active int
		err = row.Scan(append(topicFields(&c.Topic), &c.SourceDescription, &active, &c.Kept, query.Moment(&c.Since))...)
		c.Subscribed, c.Left = active == 1, active == 0
		return c, err
	}, `SELECT t.client_id, t.name, t.description, t.closed, 0, t.created, t.updated, COALESCE(c.description, ''),
			COALESCE(CASE WHEN m.active THEN 1 WHEN NOT m.active THEN 0 END, 2), COALESCE(m.subscriber = '', FALSE),
			COALESCE(m.since, 0)
		FROM notify_topics t
		LEFT JOIN notify_topic_members m ON m.topic = t.id AND m.id = ?
		LEFT JOIN notify_clients c ON c.id = t.client_id
		WHERE t.client_id <> '' AND t.id IN (SELECT topic FROM notify_topic_members WHERE id = ? UNION
			SELECT o.id FROM notify_receipts r JOIN notify_topics o ON o.client_id = r.client_id
			WHERE r.user_id = ? AND NOT o.closed)
		ORDER BY t.client_id, t.name`, member.id, member.id, receiver)
}

// TopicsOf implements notify.Store. An address does not subscribe itself, so it has no open topics.
func (s *Topics) TopicsOf(ctx context.Context, subscriber string) ([]notify.TopicChoice, error) {
	m, err := s.MemberOf(ctx, subscriber)
	if err != nil {
		return nil, err
	}
	receiver := subscriber
	if strings.HasPrefix(subscriber, notify.AddressScheme) {
		receiver = ""
	}
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.TopicChoice, error) { return choices(tx, m, receiver) })
}

// Choose changes what a member chose, in a transaction of its caller: true subscribes, false leaves.
func (s *Topics) Choose(tx *db.Tx, m Member, all map[notify.TopicRef]bool) error {
	refs := slices.SortedFunc(maps.Keys(all), func(a, b notify.TopicRef) int {
		return cmp.Or(strings.Compare(a.ClientID, b.ClientID), strings.Compare(a.Name, b.Name))
	}) // the same order everywhere, to avoid deadlocks
	for _, ref := range refs {
		if err := s.choose(tx, m, ref, all[ref]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Topics) choose(tx *db.Tx, m Member, ref notify.TopicRef, subscribe bool) error {
	if ref.ClientID == "" { // what is left of deleted topics
		return notify.ErrNotFound
	}
	topic, err := lockTopic(tx, ref)
	if err != nil {
		return err
	}
	there, err := activeOf(tx, topic, []string{m.id})
	if err != nil {
		return err
	}
	active, is := there[m.id]
	now := db.Nanos(s.now())
	switch {
	case is && active == subscribe:
		return nil
	case is && subscribe:
		_, err = tx.Exec("UPDATE notify_topic_members SET active = TRUE, subscriber = ?, since = ? WHERE topic = ? AND "+
			"id = ?", m.subscriber, now, topic, m.id)
		if err != nil {
			return err
		}
		return count(tx, topic, 1, 0)
	case is:
		_, err = tx.Exec("UPDATE notify_topic_members SET active = FALSE, since = ? WHERE topic = ? AND id = ?", now, topic,
			m.id)
		if err != nil {
			return err
		}
		return count(tx, topic, -1, 0)
	case !subscribe:
		return nil
	}
	return s.join(tx, m, ref, topic, now)
}

// join subscribes a user to an open topic.
func (s *Topics) join(tx *db.Tx, m Member, ref notify.TopicRef, topic string, now int64) error {
	open, err := query.One(tx, func(row db.Scanner) (closed bool, err error) {
		err = row.Scan(&closed)
		return !closed, err
	}, "SELECT closed FROM notify_topics WHERE id = ?", topic)
	if err != nil {
		return err
	}
	if !open || strings.HasPrefix(m.subscriber, notify.AddressScheme) {
		return notify.ErrNotFound
	}
	if err := count(tx, topic, 1, 1); err != nil {
		return err
	}
	if err := checkRoom(tx, ref.ClientID); err != nil {
		return err
	}
	return newMembers.All(tx, []any{topic, m.id, m.subscriber, true, now})
}

// ChosenTopics returns what a person chose, as far as it belongs to the client.
func (s *Topics) ChosenTopics(ctx context.Context, p notify.Person) ([]notify.TopicChoice, error) {
	members, err := s.members(ctx, p.Subscribers()...)
	if err != nil {
		return nil, err
	}
	return query.View(ctx, s.db, func(tx *db.Tx) (all []notify.TopicChoice, err error) {
		for _, m := range members {
			found, err := choices(tx, m, "")
			if err != nil {
				return nil, err
			}
			all = append(all, slices.DeleteFunc(found, func(c notify.TopicChoice) bool {
				return !p.All && c.ClientID != p.ClientID
			})...)
		}
		return all, nil
	})
}

// EraseTopics deletes the subscriptions of a person. Of those that they left, the hash stays. record records how many,
// in the transaction that erased them.
func (s *Topics) EraseTopics(ctx context.Context, p notify.Person, record func(tx *db.Tx, gone, kept int) error) error {
	members, err := s.members(ctx, p.Subscribers()...)
	if err != nil {
		return err
	}
	for _, m := range members {
		if err := query.Lock(ctx, s.db, func(tx *db.Tx) error { return erase(tx, p, m, record) }); err != nil {
			return err
		}
	}
	return nil
}

func erase(tx *db.Tx, p notify.Person, m Member, record func(tx *db.Tx, gone, kept int) error) error {
	where, args := "id IN (SELECT topic FROM notify_topic_members WHERE id = ?)", []any{m.id}
	if !p.All {
		where, args = where+" AND client_id = ?", append(args, p.ClientID)
	}
	topics, err := query.Matching(tx, query.ScanText, "SELECT id FROM notify_topics WHERE "+where+" ORDER BY id"+
		query.ForUpdate(tx.Dialect()), args...)
	if err != nil || len(topics) == 0 {
		return err
	}
	list, err := query.TextList(topics)
	if err != nil {
		return err
	}
	theirs := " WHERE id = ? AND " + query.TextsIn(tx.Dialect(), "topic")
	kept, err := tx.Exec("UPDATE notify_topic_members SET subscriber = ''"+theirs+" AND NOT active AND subscriber <> ''",
		m.id, list)
	if err != nil {
		return err
	}
	gone, err := db.All(tx, query.ScanText, "DELETE FROM notify_topic_members"+theirs+" AND active RETURNING topic", m.id,
		list)
	if err != nil {
		return err
	}
	for _, topic := range slices.Sorted(slices.Values(gone)) {
		if err := count(tx, topic, -1, -1); err != nil {
			return err
		}
	}
	return record(tx, len(gone), int(kept))
}
