package notifydb

import (
	"context"
	"encoding/json"

	"ingot/internal/base/db"
	"ingot/internal/notify/notifydb/query"
)

// eraseCalls removes the person from calls of webhooks that are not made yet.
func (s *Store) eraseCalls(ctx context.Context, e *erasure) error {
	type call struct{ id, payload string }
	scan := func(row db.Scanner) (c call, err error) {
		err = row.Scan(&c.id, &c.payload)
		return c, err
	}
	for after := ""; ; {
		calls, err := query.View(ctx, s.db, func(tx *db.Tx) ([]call, error) {
			where, args := query.Mentions(tx.Dialect(), "payload", e.Person)
			args = append([]any{after}, args...)
			if !e.All {
				where += " AND webhook_id IN (SELECT id FROM notify_webhooks WHERE client_id = ?)"
				args = append(args, e.ClientID)
			}
			return query.Matching(tx, scan, "SELECT id, payload FROM notify_callbacks WHERE id > ? AND "+where+
				" ORDER BY id LIMIT ?", append(args, erasedBatch)...)
		})
		if err != nil || len(calls) == 0 {
			return err
		}
		after = calls[len(calls)-1].id
		err = s.lock(ctx, func(tx *db.Tx) error {
			n := 0
			for _, c := range calls {
				text, about := e.withoutRecipient(c.payload)
				if !about {
					continue
				}
				if _, err := tx.Exec("UPDATE notify_callbacks SET payload = ? WHERE id = ?", text, c.id); err != nil {
					return err
				}
				n++
			}
			return e.count(tx, "calls", n)
		})
		if err != nil {
			return err
		}
	}
}

// withoutRecipient returns the payload of a call without its recipient and reason, in which mail servers name the
// address, and reports whether it is about the person.
func (e *erasure) withoutRecipient(payload string) (string, bool) {
	var fields map[string]json.RawMessage
	var recipient string
	if json.Unmarshal([]byte(payload), &fields) != nil || json.Unmarshal(fields["recipient"], &recipient) != nil ||
		!e.Is(recipient, recipient) {
		return "", false
	}
	fields["recipient"] = json.RawMessage(`""`)
	delete(fields, "reason")
	text, err := json.Marshal(fields)
	return string(text), err == nil
}
