package throttles

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
)

// Throttles implements the part of notify.Store that limits messages. It is safe for concurrent use.
type Throttles struct {
	db     *db.DB
	steady func() time.Time
	hasher *query.Hasher
}

// New returns the limits in a database with the tables of notifydb. steady is the clock of due times.
func New(d *db.DB, steady func() time.Time, hasher *query.Hasher) *Throttles {
	return &Throttles{db: d, steady: steady, hasher: hasher}
}

// hash returns the function that makes ids. They are keyed, so that nobody who reads the table learns who got what.
func (s *Throttles) hash(ctx context.Context) (func(*notify.Ask) string, error) {
	hash, err := s.hasher.Hash(ctx)
	return func(a *notify.Ask) string {
		return hash(fmt.Sprintf("notify throttle: %q %q %d %q", a.ClientID, a.KindID, a.Channel,
			repeats.MemberOf(a.Recipient)))[:query.ShortHash]
	}, err
}

// admission is a message that counts: its number and when it was admitted.
type admission [2]int64

// row is a row of notify_throttles.
type row struct {
	ID       string `json:"i"`
	Ends     int64  `json:"e"`
	Admitted string `json:"a"`
}

// rows selects the rows of a JSON text.
func rows(d db.Dialect) string {
	if d == db.Postgres {
		return "SELECT i, e, a FROM json_to_recordset(CAST(CAST(? AS TEXT) AS JSON)) AS v (i TEXT, e BIGINT, a TEXT)"
	}
	return "SELECT value ->> 'i' AS i, value ->> 'e' AS e, value ->> 'a' AS a FROM json_each(?) WHERE TRUE"
}

// Admit implements notify.Store.
func (s *Throttles) Admit(ctx context.Context, asks []notify.Ask) (map[int64]notify.Permit, error) {
	if len(asks) == 0 {
		return map[int64]notify.Permit{}, nil
	}
	hash, err := s.hash(ctx)
	if err != nil {
		return nil, err
	}
	groups := map[string][]*notify.Ask{}
	for i := range asks {
		id := hash(&asks[i])
		groups[id] = append(groups[id], &asks[i])
	}
	fresh := make([]row, 0, len(groups))
	for id := range groups {
		fresh = append(fresh, row{ID: id, Admitted: "[]"})
	}
	// All processes lock the rows in the same order, to avoid deadlocks.
	slices.SortFunc(fresh, func(a, b row) int { return strings.Compare(a.ID, b.ID) })
	var admitted map[int64]notify.Permit
	err = query.Lock(ctx, s.db, func(tx *db.Tx) error {
		admitted = map[int64]notify.Permit{}
		text, err := json.Marshal(fresh)
		if err != nil {
			return err
		}
		// It also locks the rows that exist.
		stored, err := db.All(tx, scanRow, "INSERT INTO notify_throttles (id, ends, admitted) "+rows(tx.Dialect())+
			" ON CONFLICT (id) DO UPDATE SET ends = notify_throttles.ends RETURNING id, ends, admitted", string(text))
		if err != nil {
			return err
		}
		changed := stored[:0]
		for _, r := range stored {
			if change, err := admit(&r, groups[r.ID], db.Nanos(s.steady()), admitted); err != nil {
				return err
			} else if change {
				changed = append(changed, r)
			}
		}
		return store(tx, changed)
	})
	return admitted, err
}

// admit decides about the messages of one recipient, and reports whether it changed the row.
func admit(r *row, asks []*notify.Ask, now int64, admitted map[int64]notify.Permit) (bool, error) {
	var counted []admission
	if err := json.Unmarshal([]byte(r.Admitted), &counted); err != nil {
		return false, err
	}
	changed := false
	for _, a := range asks {
		window := int64(a.Rule.Window)
		others, held := 0, false
		for _, c := range counted {
			switch {
			case c[1] <= now-window:
			case c[0] == a.Number:
				held = true
			default:
				others++
			}
		}
		if !held && others >= a.Rule.Limit {
			continue
		}
		counted = slices.DeleteFunc(counted, func(c admission) bool { return c[0] == a.Number })
		// As many as the largest limit are kept. Rules of sends may differ, if that of the kind was changed.
		if counted = append(counted, admission{a.Number, now}); len(counted) > notify.MaxThrottle {
			counted = counted[1:]
		}
		r.Ends = max(r.Ends, now+window)
		admitted[a.Number], changed = notify.Permit{Limit: r.ID, Number: a.Number, At: db.Time(now)}, true
	}
	if !changed {
		return false, nil
	}
	text, err := json.Marshal(counted)
	r.Admitted = string(text)
	return true, err
}

// TakeBack takes permits back in the transaction that stores why their messages were not sent. Permits that are void by
// then are left alone: another process has admitted the message again.
func TakeBack(tx *db.Tx, permits []notify.Permit) error {
	if len(permits) == 0 {
		return nil
	}
	unused := map[string][]admission{}
	for _, p := range permits {
		unused[p.Limit] = append(unused[p.Limit], admission{p.Number, db.Nanos(p.At)})
	}
	list, err := query.TextList(slices.Collect(maps.Keys(unused)))
	if err != nil {
		return err
	}
	stored, err := db.All(tx, scanRow, "SELECT id, ends, admitted FROM notify_throttles WHERE "+
		query.TextsIn(tx.Dialect(), "id")+" ORDER BY id"+query.ForUpdate(tx.Dialect()), list)
	if err != nil {
		return err
	}
	changed := stored[:0]
	for _, r := range stored {
		var counted []admission
		if err := json.Unmarshal([]byte(r.Admitted), &counted); err != nil {
			return err
		}
		left := slices.DeleteFunc(slices.Clone(counted), func(c admission) bool { return slices.Contains(unused[r.ID], c) })
		if len(left) == len(counted) {
			continue
		}
		text, err := json.Marshal(left)
		if err != nil {
			return err
		}
		r.Admitted = string(text)
		changed = append(changed, r)
	}
	return store(tx, changed)
}

func scanRow(sc db.Scanner) (r row, err error) {
	err = sc.Scan(&r.ID, &r.Ends, &r.Admitted)
	return r, err
}

func store(tx *db.Tx, changed []row) error {
	if len(changed) == 0 {
		return nil
	}
	text, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	_, err = tx.Exec("UPDATE notify_throttles SET ends = v.e, admitted = v.a FROM ("+rows(tx.Dialect())+
		") AS v WHERE id = v.i", string(text))
	return err
}

const purgeBatch = 1000

// PurgeThrottles deletes what no longer counts.
func (s *Throttles) PurgeThrottles(ctx context.Context) error {
	now := db.Nanos(s.steady())
	for {
		var n int64
		err := query.Lock(ctx, s.db, func(tx *db.Tx) (err error) {
			n, err = tx.Exec("DELETE FROM notify_throttles WHERE id IN (SELECT id FROM notify_throttles WHERE ends <= ? "+
				"ORDER BY ends LIMIT ?) AND ends <= ?", now, purgeBatch, now)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
}
