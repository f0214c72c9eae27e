package notifydb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/files"
	"ingot/internal/notify/notifydb/occurrences"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/reactions"
	"ingot/internal/notify/notifydb/usage"
)

const (
	// erasedBatch limits the messages of one transaction.
	erasedBatch  = 500
	reasonErased = "the recipient's data was erased on request"
	// erasuresKept is how long it can be asked what was erased.
	erasuresKept = 366 * 24 * time.Hour
	// manyAddresses limits the addresses that a user's messages went to.
	manyAddresses = 100
)

// erasure is an erasure in progress. Each step finds what is left, so it can be interrupted anywhere and repeated.
type erasure struct {
	notify.Erasure
	addresses []string // lowercase
	collected bool
	waiting   bool // messages of the person are being delivered
}

const erasureColumns = "id, client_id, user_id, email, addresses, created, finished, messages, canceled, contents, " +
	"listed, notifications, preferences, suppressions, calls, browsers, topics"

// everyone stands for all clients in notify_erasures.
const everyone = ""

func scanErasure(row db.Scanner) (e erasure, err error) {
	var addresses string
	n := &e.Erased
	err = row.Scan(&e.ID, &e.ClientID, &e.UserID, &e.Email, &addresses, query.Moment(&e.Created),
		query.Moment(&e.Finished),
		&n.Messages, &n.Canceled, &n.Contents, &n.Listed, &n.Notifications, &n.Preferences, &n.Suppressions, &n.Calls,
		&n.Browsers, &n.Topics)
	if err != nil {
		return e, err
	}
	e.All = e.ClientID == everyone
	if e.collected = addresses != ""; e.collected {
		err = json.Unmarshal([]byte(addresses), &e.addresses)
	}
	return e, err
}

// count adds to the numbers of an erasure, in the transaction that erased.
func (e *erasure) count(tx *db.Tx, column string, n int) error {
	if n == 0 {
		return nil
	}
	_, err := tx.Exec("UPDATE notify_erasures SET "+column+" = "+column+" + ? WHERE id = ?", n, e.ID)
	return err
}

// Erase implements notify.Store.
func (s *Store) Erase(ctx context.Context, e notify.Erasure) (notify.Erasure, error) {
	client := e.ClientID
	if e.All {
		client = everyone
	}
	if err := query.AllStorable(e.ID, client, e.UserID, e.Email); err != nil {
		return notify.Erasure{}, err
	}
	// Counting and inserting have to be serializable, or concurrent requests would pass the limit.
	err := query.Write(ctx, s.db, func(tx *db.Tx) error {
		open, err := query.One(tx, query.ScanNumber,
			"SELECT COUNT(*) FROM notify_erasures WHERE client_id = ? AND finished = 0", client)
		if err != nil {
			return err
		}
		if open >= notify.MaxErasures {
			return notify.ErrTooMany
		}
		if err := forgetErasures(tx, client); err != nil {
			return err
		}
		_, err = tx.Exec(query.Insert("notify_erasures", "id, client_id, user_id, email, addresses, created, finished"),
			e.ID, client, e.UserID, query.LowerASCII(e.Email), "", db.Nanos(s.now()), 0)
		return err
	})
	if err != nil {
		return notify.Erasure{}, err
	}
	emptied, err := s.carryOut(ctx, ctx, e.ID)
	if err != nil && ctx.Err() == nil {
		// The request is stored, so it is not refused.
		s.log.WarnContext(ctx, "erase the data of a person failed, trying again", "erasure", e.ID, "error", err)
	}
	after, err := s.Erasure(context.WithoutCancel(ctx), e.ID)
	after.Inboxes = emptied
	return after, err
}

// forgetErasures makes room for another erasure of a client: the oldest finished ones are deleted.
func forgetErasures(tx *db.Tx, client string) error {
	all, err := query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_erasures WHERE client_id = ?", client)
	if err != nil || all < notify.ErasuresKept {
		return err
	}
	_, err = tx.Exec(`DELETE FROM notify_erasures WHERE id IN (SELECT id FROM notify_erasures WHERE client_id = ? AND
		finished > 0 ORDER BY finished LIMIT ?)`, client, all-notify.ErasuresKept+1)
	return err
}

// Erasure implements notify.Store.
func (s *Store) Erasure(ctx context.Context, id string) (notify.Erasure, error) {
	e, err := s.erasure(ctx, id)
	return e.Erasure, err
}

func (s *Store) erasure(ctx context.Context, id string) (erasure, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) (erasure, error) {
		return query.One(tx, scanErasure, "SELECT "+erasureColumns+" FROM notify_erasures WHERE id = ?", id)
	})
}

// openErasures are those that are not finished, of clients in turn, the oldest of each first.
const openErasures = "SELECT id FROM (SELECT id, ROW_NUMBER() OVER (PARTITION BY client_id ORDER BY created, id) AS " +
	"place FROM notify_erasures WHERE finished = 0) AS o ORDER BY place, id LIMIT ?"

// ContinueErasures implements notify.Store.
func (s *Store) ContinueErasures(ctx context.Context) (int, error) {
	find := func() ([]string, error) {
		return query.Read(ctx, s.db, func(tx *db.Tx) ([]string, error) {
			return db.All(tx, query.ScanText, openErasures, notify.MaxErasures)
		})
	}
	ids, err := find()
	if err != nil {
		return 0, err
	}
	if len(ids) == 0 {
		return 0, nil
	}
	// A client whose turn is taken has a request that is doing the same: the others do not wait for it.
	patience, end := context.WithCancel(ctx)
	end()
	var failed []error
	for _, id := range ids {
		// One that fails does not keep the others from being carried out.
		if _, err := s.carryOut(ctx, patience, id); err != nil && !errors.Is(err, errBusy) {
			failed = append(failed, fmt.Errorf("erase the data of a person: %w", err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(failed) > 0 {
		return len(ids), errors.Join(failed[:min(len(failed), 3)]...)
	}
	ids, err = find()
	return len(ids), err
}

// errBusy means that another erasure of the same client is carried out at this moment.
var errBusy = errors.New("another erasure of the client is in progress")

// carryOut does all steps of an erasure, and returns which inboxes it emptied. It waits for the client's turn until
// patience ends: each client has one erasure at a time, so that many of one do not delay those of others.
func (s *Store) carryOut(ctx, patience context.Context, id string) (emptied []notify.Owner, err error) {
	e, err := s.erasure(ctx, id)
	if err != nil || !e.Finished.IsZero() {
		return nil, err
	}
	unlock, err := s.erasers.Lock(patience, e.ClientID)
	if err != nil {
		return nil, errBusy
	}
	defer unlock()
	release, err := acquire(ctx, s.erasing)
	if err != nil {
		return nil, err
	}
	defer release()
	e, err = s.erasure(ctx, id)
	if err != nil || !e.Finished.IsZero() {
		return nil, err
	}
	for _, step := range []func(context.Context, *erasure) error{
		// Recurring sends first: they make lists.
		s.collectAddresses, s.erasePreferences, s.eraseTopics, s.eraseSuppressions, s.eraseRecurring, s.eraseLists,
		s.eraseScheduled, s.eraseContents, s.eraseFigures, s.eraseMessages, s.eraseDigests, s.eraseInboxes,
		s.eraseBrowsers, s.eraseCalls,
	} {
		if err := step(ctx, &e); err != nil {
			return e.Inboxes, err
		}
	}
	if e.waiting {
		return e.Inboxes, nil
	}
	err = s.lock(ctx, func(tx *db.Tx) error {
		// What clients sent the user is known by the receipts, so they are deleted last.
		query, args := "DELETE FROM notify_receipts WHERE user_id = ?", []any{e.UserID}
		if !e.All {
			query, args = query+" AND client_id = ?", append(args, e.ClientID)
		}
		if _, err := tx.Exec(query, args...); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE notify_erasures SET finished = ?, user_id = '', email = '', addresses = '' WHERE id = ?",
			db.Nanos(s.now()), e.ID)
		return err
	})
	s.seen.Forget(s.steady())
	return e.Inboxes, err
}

// collectAddresses stores the addresses that may be suppressed because of the person's messages, before those lose
// them.
func (s *Store) collectAddresses(ctx context.Context, e *erasure) error {
	if e.collected || !e.All {
		return nil
	}
	if err := s.findAddresses(ctx, e); err != nil {
		return err
	}
	text, err := json.Marshal(e.addresses)
	if err != nil {
		return err
	}
	return s.lock(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE notify_erasures SET addresses = ? WHERE id = ?", string(text), e.ID)
		return err
	})
}

// findAddresses finds the addresses that the person's messages went to.
func (s *Store) findAddresses(ctx context.Context, e *erasure) error {
	e.addresses = []string{}
	if e.Email != "" {
		e.addresses = append(e.addresses, strings.ToLower(e.Email))
	}
	user := e.Person
	user.Email = ""
	if user.UserID == "" {
		return nil
	}
	return s.eachMessage(ctx, user, func(list []notify.Message) error {
		for _, m := range list {
			if a := strings.ToLower(m.Email); a != "" && !slices.Contains(e.addresses, a) && len(e.addresses) < manyAddresses {
				e.addresses = append(e.addresses, a)
			}
		}
		return nil
	})
}

// erasePreferences replaces what the person unsubscribed from by hashes, and deletes their quiet hours.
func (s *Store) erasePreferences(ctx context.Context, e *erasure) error {
	if e.All {
		if err := s.EraseQuietHours(ctx, e.Person); err != nil {
			return err
		}
	}
	return s.ErasePreferences(ctx, e.Person, func(tx *db.Tx, n int) error { return e.count(tx, "preferences", n) })
}

// eraseTopics deletes the person's subscriptions to topics, and replaces those that they left by hashes.
func (s *Store) eraseTopics(ctx context.Context, e *erasure) error {
	return s.EraseTopics(ctx, e.Person, func(tx *db.Tx, gone, kept int) error {
		if err := e.count(tx, "preferences", kept); err != nil {
			return err
		}
		return e.count(tx, "topics", gone)
	})
}

// eraseSuppressions replaces suppressed addresses of the person by hashes. The list belongs to no client.
func (s *Store) eraseSuppressions(ctx context.Context, e *erasure) error {
	if !e.All {
		return nil
	}
	return s.EraseSuppressions(ctx, e.addresses, func(tx *db.Tx, n int) error { return e.count(tx, "suppressions", n) })
}

// eraseLists empties the person's entries in lists of recipients. The others keep their positions. If there is no
// other, the content of the send goes too, or the send, if it waits for its time.
func (s *Store) eraseLists(ctx context.Context, e *erasure) error {
	return s.eachBlock(ctx, e.Person, func(b listBlock) error {
		alone := b.position == 0 && len(b.members) == 1
		if alone && b.send != 0 {
			if err := s.cancelScheduled(ctx, e, b.send); err != nil {
				return err
			}
		}
		return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
			found, err := scanBlocks(tx, "WHERE m.list = ? AND m.position = ?"+forUpdateOf(tx.Dialect(), "m"), b.list,
				b.position)
			if err != nil || len(found) == 0 {
				return nil, err
			}
			b, n := found[0], 0
			for i, m := range b.members {
				if e.Is(m.UserID, m.Email) {
					b.members[i] = notify.Member{}
					n++
				}
			}
			text, err := json.Marshal(b.members)
			if err != nil {
				return nil, err
			}
			if _, err := tx.Exec("UPDATE notify_list_members SET members = ? WHERE list = ? AND position = ?", string(text),
				b.list, b.position); err != nil {
				return nil, err
			}
			less := []usage.Freed{{Client: b.client, Bytes: int64(b.size - len(text))}}
			if alone && b.send != 0 {
				more, err := eraseContent(tx, e, b.send)
				if err != nil {
					return nil, err
				}
				less = append(less, more...)
			}
			return less, e.count(tx, "listed", n)
		})
	})
}

// eraseRecurring removes the person from recurring sends, and deletes those to nobody else. Those that the person set
// stay, because they are the client's, but stop with their next occurrence: they have no rights left.
func (s *Store) eraseRecurring(ctx context.Context, e *erasure) error {
	return s.eachRecurring(ctx, e.Person, func(r notify.Recurring) error {
		return s.lock(ctx, func(tx *db.Tx) error {
			now, err := query.One(tx, occurrences.ScanRecurring,
				"SELECT "+occurrences.RecurringColumns+" FROM notify_recurring WHERE client_id = ? AND "+
					"name = ?"+query.ForUpdate(tx.Dialect()), r.ClientID, r.Name)
			if query.IsNotFound(err) {
				return nil
			}
			if err != nil {
				return err
			}
			n := len(e.RecipientsIn(now.Message))
			if left, others := e.WithoutRecipient(now.Message); others {
				// A server that has read it to send it reads it again.
				_, err = tx.Exec("UPDATE notify_recurring SET message = ?, problem = '', updated = updated + 1 WHERE "+
					"client_id = ? AND name = ?",
					db.JSON[notify.RecurringMessage]{V: left}, r.ClientID, r.Name)
			} else {
				_, err = tx.Exec("DELETE FROM notify_recurring WHERE client_id = ? AND name = ?", r.ClientID, r.Name)
			}
			if err != nil {
				return err
			}
			return e.count(tx, "listed", n)
		})
	})
}

// forUpdateOf is forUpdate for one of the tables of a query.
func forUpdateOf(d db.Dialect, table string) string {
	if d == db.Postgres {
		return " FOR UPDATE OF " + table
	}
	return ""
}

// cancelScheduled cancels a send if it waits for its time.
func (s *Store) cancelScheduled(ctx context.Context, e *erasure, number int64) error {
	waits, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]int64, error) {
		return db.All(tx, query.ScanNumber, "SELECT number FROM notify_scheduled WHERE number = ?", number)
	})
	if err != nil || len(waits) == 0 {
		return err
	}
	if _, err := s.Cancel(ctx, number); err != nil {
		return err
	}
	return s.lock(ctx, func(tx *db.Tx) error { return e.count(tx, "canceled", 1) })
}

// eraseScheduled cancels sends to the person that wait for their time. They are then as any other.
func (s *Store) eraseScheduled(ctx context.Context, e *erasure) error {
	return s.eachSend(ctx, e.Person, "notify_scheduled", func(r *sendRow) error {
		if !e.OnlyTo(&r.Send) {
			return nil
		}
		return s.cancelScheduled(ctx, e, r.Number)
	})
}

// eraseContents removes the person from the audiences of sends, and the contents of those to the person alone.
func (s *Store) eraseContents(ctx context.Context, e *erasure) error {
	return s.eachSend(ctx, e.Person, "notify_sends", func(r *sendRow) error {
		return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) { return eraseContent(tx, e, r.Number) })
	})
}

// eraseContent changes a send that the person is an audience of, or whose only recipient is erased.
func eraseContent(tx *db.Tx, e *erasure, number int64) ([]usage.Freed, error) {
	r, err := query.One(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE number = ?"+
		query.ForUpdate(tx.Dialect()), number)
	if query.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	before, err := encodeSend(&r.Send)
	if err != nil {
		return nil, err
	}
	changed := r.Send
	n := 0
	if e.OnlyTo(&r.Send) || r.List() != "" {
		changed, n = r.WithoutContent(e.Person), 1
	} else {
		changed.Audiences = r.WithoutContent(e.Person).Audiences
	}
	after, err := encodeSend(&changed)
	if err != nil || after == before {
		return nil, err
	}
	if _, err := tx.Exec("UPDATE notify_sends SET data = ? WHERE number = ?", after, number); err != nil {
		return nil, err
	}
	less := []usage.Freed{{Client: r.ClientID, Bytes: int64(len(before) - len(after))}}
	if len(r.Attachments) > 0 && len(changed.Attachments) == 0 {
		erased, err := files.Erase(tx, &r.Send)
		if err != nil {
			return nil, err
		}
		less = append(less, erased...)
	}
	return less, e.count(tx, "contents", n)
}

// eraseMessages removes the person from messages, and cancels those that wait. Messages that are claimed keep their
// recipient until they are final: they may be on their way.
func (s *Store) eraseMessages(ctx context.Context, e *erasure) error {
	return s.eachMessage(ctx, e.Person, func(list []notify.Message) error {
		for len(list) > 0 {
			send, n := notify.SendOf(list[0].Number), 1
			for n < len(list) && notify.SendOf(list[n].Number) == send {
				n++
			}
			if err := s.eraseSome(ctx, e, list[:n]); err != nil {
				return err
			}
			list = list[n:]
		}
		return nil
	})
}

// eraseSome erases messages of one send.
func (s *Store) eraseSome(ctx context.Context, e *erasure, list []notify.Message) error {
	release, err := acquire(ctx, s.claiming)
	if err != nil {
		return err
	}
	defer release()
	numbers := make([]int64, 0, len(list))
	for _, m := range list {
		numbers = append(numbers, m.Number)
	}
	shard, now := s.shard(), s.now()
	held := false
	err = s.lock(ctx, func(tx *db.Tx) error {
		if err := s.excludeClaims(tx); err != nil {
			return err
		}
		rows, err := db.All(tx, scanMessage, "SELECT "+messageColumns+" FROM notify_messages WHERE "+
			query.NumbersIn(tx.Dialect(), "number")+
			" ORDER BY number"+query.ForUpdate(tx.Dialect()), query.NumberList(tx.Dialect(), numbers))
		if err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(m notify.Message) bool { return !e.Is(m.UserID, m.Email) })
		waiting := slices.DeleteFunc(slices.Clone(rows), func(m notify.Message) bool { return m.Status.Final() })
		free, claimed, err := s.cancelable(tx, waiting)
		if err != nil {
			return err
		}
		held = len(claimed) > 0
		for i := range free {
			free[i].Email = "" // figures do not count it for its domain
		}
		if _, err := s.cancelRows(tx, free, claimed, now, shard); err != nil {
			return err
		}
		var erased []int64
		for _, m := range rows {
			if !slices.Contains(claimed, m.Number) {
				erased = append(erased, m.Number)
			}
		}
		if _, err := tx.Exec("UPDATE notify_messages SET user_id = '', email = '', parked = FALSE, reason = ? WHERE "+
			query.NumbersIn(tx.Dialect(), "number"), reasonErased, query.NumberList(tx.Dialect(), erased)); err != nil {
			return err
		}
		if err := reactions.Forget(tx, erased); err != nil {
			return err
		}
		// Mail servers name the address in the reasons of attempts.
		if _, err := tx.Exec("DELETE FROM notify_attempts WHERE "+query.NumbersIn(tx.Dialect(), "number"),
			query.NumberList(tx.Dialect(), erased)); err != nil {
			return err
		}
		if err := e.count(tx, "canceled", len(free)); err != nil {
			return err
		}
		return e.count(tx, "messages", len(erased))
	})
	e.waiting = e.waiting || held
	return err
}

// eraseInboxes deletes what the user has in inboxes.
func (s *Store) eraseInboxes(ctx context.Context, e *erasure) error {
	if e.UserID == "" {
		return nil
	}
	owners, err := s.InboxesOf(ctx, e.Person)
	if err != nil {
		return err
	}
	for _, of := range owners {
		err := s.EraseInbox(ctx, of, func(tx *db.Tx, n int) error {
			e.Inboxes = append(e.Inboxes, of)
			return e.count(tx, "notifications", n)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eraseBrowsers deletes the user's push subscriptions.
func (s *Store) eraseBrowsers(ctx context.Context, e *erasure) error {
	return s.EraseBrowsers(ctx, e.Person, func(tx *db.Tx, n int) error { return e.count(tx, "browsers", n) })
}

// purgeErasures forgets what was erased long ago.
func (s *Store) purgeErasures(ctx context.Context) error {
	before := db.Nanos(s.now().Add(-erasuresKept))
	return s.lock(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM notify_erasures WHERE finished > 0 AND finished < ?", before)
		return err
	})
}
