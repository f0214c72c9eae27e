package reactions

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/figures"
	"ingot/internal/notify/notifydb/query"
)

// Reactions implements the part of notify.Store that is about opens and clicks. It is safe for concurrent use.
type Reactions struct {
	db      *db.DB
	figures *figures.Keeper
	shard   func() int
}

// New returns the reactions in a database with the tables of notifydb.
func New(d *db.DB, f *figures.Keeper, shard func() int) *Reactions {
	return &Reactions{db: d, figures: f, shard: shard}
}

// known finds a message that has a recipient. It locks the row: a message that is erased or purged at the same time has
// no reactions afterwards.
const known = "SELECT number FROM notify_messages WHERE number = ? AND (user_id <> '' OR email <> '')"

// counted adds one to a reaction, up to a limit.
var counted = query.Insert("notify_reactions", "message, type, first, last, total") + " ON CONFLICT (message, type) " +
	"DO UPDATE SET last = excluded.last, total = notify_reactions.total + 1 WHERE notify_reactions.total < ? " +
	"RETURNING total"

// React implements notify.Store.
func (s *Reactions) React(ctx context.Context, r notify.Reaction, of notify.FigureSeries) error {
	if err := query.AllStorable(of.ClientID, of.KindID, of.TemplateID, of.Domain); err != nil {
		return err
	}
	var changes figures.Changes
	err := query.Lock(ctx, s.db, func(tx *db.Tx) error {
		changes = figures.Changes{}
		there, err := db.All(tx, query.ScanNumber, known+query.ForUpdate(tx.Dialect()), r.Number)
		if err != nil || len(there) == 0 {
			return err
		}
		at := db.Nanos(r.Last)
		totals, err := db.All(tx, query.ScanNumber, counted, r.Number, int(r.Type), at, at, 1, notify.MaxReactions)
		if err != nil || len(totals) == 0 {
			return err
		}
		changes.Reaction(of, r.Figures(totals[0]), r.Last)
		return s.figures.Store(tx, &changes, s.shard())
	})
	if err == nil {
		s.figures.Committed(&changes)
	}
	return err
}

// ReactionsTo returns the reactions to messages, by their numbers.
func (s *Reactions) ReactionsTo(ctx context.Context, list []notify.Message) (map[int64][]notify.Reaction, error) {
	numbers := make([]int64, len(list))
	for i, m := range list {
		numbers[i] = m.Number
	}
	found, err := query.Read(ctx, s.db, func(tx *db.Tx) ([]notify.Reaction, error) {
		return db.All(tx, func(row db.Scanner) (r notify.Reaction, err error) {
			err = row.Scan(&r.Number, &r.Type, query.Moment(&r.First), query.Moment(&r.Last), &r.Total)
			return r, err
		}, "SELECT message, type, first, last, total FROM notify_reactions WHERE "+
			query.NumbersIn(tx.Dialect(), "message")+" ORDER BY message, type", query.NumberList(tx.Dialect(), numbers))
	})
	of := map[int64][]notify.Reaction{}
	for _, r := range found {
		of[r.Number] = append(of[r.Number], r)
	}
	return of, err
}

// Forget deletes the reactions to messages, in the transaction that deletes or erases these.
func Forget(tx *db.Tx, numbers []int64) error {
	_, err := tx.Exec("DELETE FROM notify_reactions WHERE "+query.NumbersIn(tx.Dialect(), "message"),
		query.NumberList(tx.Dialect(), numbers))
	return err
}
