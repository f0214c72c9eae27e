package notifydb

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/occurrences"
	"ingot/internal/notify/notifydb/query"
)

// eachMessage visits the messages of a person in parts, those of the newest sends first. The messages of a send are
// next to each other, but may be in several parts.
func (s *Store) eachMessage(ctx context.Context, p notify.Person, visit func([]notify.Message) error) error {
	var parts []string
	var args []any
	if p.UserID != "" {
		parts, args = append(parts, "user_id = ?"), append(args, p.UserID)
	}
	if p.Email != "" {
		parts, args = append(parts, "lower(email) = ?"), append(args, query.LowerASCII(p.Email))
	}
	q := notify.MessageQuery{ClientID: p.ClientID, All: p.All, Limit: erasedBatch}
	for {
		list, err := s.search(ctx, q, " AND ("+strings.Join(parts, " OR ")+")", args)
		if err != nil || len(list) == 0 {
			return err
		}
		if err := visit(list); err != nil {
			return err
		}
		q.After = list[len(list)-1].Number
	}
}

// eachSend visits the sends in one of the two tables that have the person among their audiences.
func (s *Store) eachSend(ctx context.Context, p notify.Person, table string, visit func(*sendRow) error) error {
	columns, scan := sendColumns, scanSend
	if table == "notify_scheduled" {
		columns, scan = scheduledColumns, scanScheduled
	}
	for after := int64(-1); ; {
		rows, err := query.View(ctx, s.db, func(tx *db.Tx) ([]sendRow, error) {
			if err := query.UseIndexes(tx); err != nil {
				return nil, err
			}
			where, args := query.Mentions(tx.Dialect(), "data", p)
			args = append([]any{after}, args...)
			if !p.All {
				where, args = where+" AND client_id = ?", append(args, p.ClientID)
			}
			return query.Matching(tx, scan, "SELECT "+columns+" FROM "+table+" WHERE number > ? AND "+where+
				" ORDER BY number LIMIT ?", append(args, erasedBatch)...)
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for i := range rows {
			after = rows[i].Number
			if !slices.ContainsFunc(rows[i].Audiences, p.Named) {
				continue
			}
			if err := visit(&rows[i]); err != nil {
				return err
			}
		}
	}
}

// listBlock is a block of a list of recipients.
type listBlock struct {
	list, client string
	send         int64
	position     int
	size         int
	members      []notify.Member
}

func scanBlocks(tx *db.Tx, where string, args ...any) ([]listBlock, error) {
	return query.Matching(tx, func(row db.Scanner) (b listBlock, err error) {
		var text string
		if err := row.Scan(&b.list, &b.client, &b.send, &b.position, &text); err != nil {
			return b, err
		}
		b.size = len(text)
		err = json.Unmarshal([]byte(text), &b.members)
		return b, err
	}, "SELECT m.list, l.client_id, l.send, m.position, m.members FROM notify_list_members AS m "+
		"JOIN notify_lists AS l ON l.id = m.list "+where, args...)
}

// blocksAtOnce is how many blocks are in memory.
const blocksAtOnce = 8

// eachBlock visits the blocks of lists that contain the person.
func (s *Store) eachBlock(ctx context.Context, p notify.Person, visit func(listBlock) error) error {
	for list, at := "", -1; ; {
		blocks, err := query.View(ctx, s.db, func(tx *db.Tx) ([]listBlock, error) {
			where, args := query.Mentions(tx.Dialect(), "m.members", p)
			args = append([]any{list, at}, args...)
			if !p.All {
				where, args = where+" AND l.client_id = ?", append(args, p.ClientID)
			}
			return scanBlocks(tx, "WHERE (m.list, m.position) > (?, ?) AND "+where+" ORDER BY m.list, m.position LIMIT ?",
				append(args, blocksAtOnce)...)
		})
		if err != nil || len(blocks) == 0 {
			return err
		}
		for _, b := range blocks {
			list, at = b.list, b.position
			if !slices.ContainsFunc(b.members, func(m notify.Member) bool { return p.Is(m.UserID, m.Email) }) {
				continue
			}
			if err := visit(b); err != nil {
				return err
			}
		}
	}
}

// ShowPerson implements notify.Store.
func (s *Store) ShowPerson(ctx context.Context, p notify.Person, add func(any) error) error {
	for _, part := range []func(context.Context, notify.Person, func(any) error) error{
		s.showSuppressions, s.showObjections, s.showTopics, s.showListed, s.showRecurring, s.showScheduled, s.showInboxes,
		s.showBrowsers, s.showMessages,
	} {
		if err := part(ctx, p, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) showSuppressions(ctx context.Context, p notify.Person, add func(any) error) error {
	e := erasure{Erasure: notify.Erasure{Person: p}}
	if !p.All {
		return nil
	}
	if err := s.findAddresses(ctx, &e); err != nil {
		return err
	}
	found, err := s.SuppressionsOf(ctx, e.addresses)
	return addAll(found, err, add)
}

func addAll[T any](list []T, err error, add func(any) error) error {
	for i := 0; err == nil && i < len(list); i++ {
		err = add(list[i])
	}
	return err
}

func (s *Store) showObjections(ctx context.Context, p notify.Person, add func(any) error) error {
	if p.All {
		quiet, err := s.QuietHours(ctx, p.Subscribers())
		if err != nil {
			return err
		}
		for _, id := range p.Subscribers() {
			if quiet[id] != nil {
				if err := add(quiet[id]); err != nil {
					return err
				}
			}
		}
	}
	found, err := s.ObjectionsOf(ctx, p)
	return addAll(found, err, add)
}

func (s *Store) showTopics(ctx context.Context, p notify.Person, add func(any) error) error {
	found, err := s.ChosenTopics(ctx, p)
	return addAll(found, err, add)
}

func (s *Store) showListed(ctx context.Context, p notify.Person, add func(any) error) error {
	return s.eachBlock(ctx, p, func(b listBlock) error {
		for _, m := range b.members {
			if p.Is(m.UserID, m.Email) {
				if err := add(notify.ListedMember{Send: b.send, Member: m}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// eachRecurring visits the recurring sends that name the person or have their rights.
func (s *Store) eachRecurring(ctx context.Context, p notify.Person, visit func(notify.Recurring) error) error {
	var after notify.RecurringRef
	for {
		rows, err := query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Recurring, error) {
			where, args := query.Mentions(tx.Dialect(), "message", p)
			args = append([]any{after.ClientID, after.Name}, args...)
			if !p.All {
				where, args = where+" AND client_id = ?", append(args, p.ClientID)
			}
			return query.Matching(tx, occurrences.ScanRecurring, "SELECT "+occurrences.RecurringColumns+
				" FROM notify_recurring WHERE "+
				"(client_id, name) > (?, ?) AND "+where+" ORDER BY client_id, name LIMIT ?", append(args, blocksAtOnce)...)
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			after = r.RecurringRef
			if len(p.RecipientsIn(r.Message)) == 0 && !p.Holds(r.Message) {
				continue
			}
			if err := visit(r); err != nil {
				return err
			}
		}
	}
}

func (s *Store) showRecurring(ctx context.Context, p notify.Person, add func(any) error) error {
	return s.eachRecurring(ctx, p, func(r notify.Recurring) error {
		var all []notify.ListedMember
		for _, m := range p.RecipientsIn(r.Message) {
			all = append(all, notify.ListedMember{Recurring: r.RecurringRef, Member: m})
		}
		return addAll(all, nil, add)
	})
}

func (s *Store) showScheduled(ctx context.Context, p notify.Person, add func(any) error) error {
	return s.eachSend(ctx, p, "notify_scheduled", func(r *sendRow) error { return add(r.Send) })
}

func (s *Store) showInboxes(ctx context.Context, p notify.Person, add func(any) error) error {
	if p.UserID == "" {
		return nil
	}
	owners, err := s.InboxesOf(ctx, p)
	if err != nil {
		return err
	}
	for _, of := range owners {
		found, err := s.AllNotifications(ctx, of)
		if err := addAll(found, err, add); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) showBrowsers(ctx context.Context, p notify.Person, add func(any) error) error {
	found, err := s.BrowsersOf(ctx, p)
	return addAll(found, err, add)
}

func (s *Store) showMessages(ctx context.Context, p notify.Person, add func(any) error) error {
	return s.eachMessage(ctx, p, func(list []notify.Message) error {
		numbers := make([]int64, 0, len(list))
		for _, m := range list {
			numbers = append(numbers, notify.SendOf(m.Number))
		}
		slices.Sort(numbers)
		sends, err := query.View(ctx, s.db, func(tx *db.Tx) (map[int64]*notify.Send, error) {
			return s.sendsOf(tx, slices.Compact(numbers))
		})
		if err != nil {
			return err
		}
		did, err := s.ReactionsTo(ctx, list)
		if err != nil {
			return err
		}
		for _, m := range list {
			if of := sends[notify.SendOf(m.Number)]; of != nil {
				if err := add(notify.Claimed{Message: m, Send: of, Reactions: did[m.Number]}); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
