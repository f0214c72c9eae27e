package notifydb

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
)

// collectedLanes is added to the lane of a message that is collected in a digest: no claim reads those.
const collectedLanes = 256

// digestKey identifies the digest that collects.
type digestKey struct {
	client, kind string
	channel      notify.ChannelID
	recipient    string
	name         string
}

func (a digestKey) compare(b digestKey) int {
	return cmp.Or(strings.Compare(a.client, b.client), strings.Compare(a.kind, b.kind), cmp.Compare(a.channel, b.channel),
		strings.Compare(a.recipient, b.recipient), strings.Compare(a.name, b.name))
}

// gathering are the entries of one digest in a transaction, as indexes into the changes.
type gathering struct {
	digestKey
	rule    *notify.DigestRule
	entries []int
	openDigest
}

// openDigest is the digest that takes entries.
type openDigest struct {
	number, due int64
	count       int
}

// collect adds entries to digests that collect, and opens others. It sets the digests and when they are due in
// changes.
func (s *Store) collect(tx *db.Tx, changes []change, send func(*change) *notify.Send) error {
	groups := map[digestKey]*gathering{}
	for i := range changes {
		c := &changes[i]
		if c.entry == nil {
			continue
		}
		of := send(c)
		key := digestKey{of.ClientID, of.KindID, c.Channel, repeats.MemberOf(c.Recipient), c.entry.Name}
		g := groups[key]
		if g == nil {
			g = &gathering{digestKey: key}
			groups[key] = g
		}
		g.rule, g.entries = c.entry.Rule, append(g.entries, i)
	}
	if len(groups) == 0 {
		return nil
	}
	all := make([]*gathering, 0, len(groups))
	for _, g := range groups {
		all = append(all, g)
	}
	// All processes change the rows in the same order, to avoid deadlocks.
	slices.SortFunc(all, func(a, b *gathering) int { return a.compare(b.digestKey) })
	if err := s.openDigests(tx, all); err != nil {
		return err
	}
	return s.divide(tx, all, changes)
}

// newDigest is a digest as it is inserted.
type newDigest struct {
	Number    int64  `json:"n"`
	Client    string `json:"c"`
	Kind      string `json:"k"`
	Channel   int    `json:"h"`
	Recipient string `json:"r"`
	Name      string `json:"m"`
	Sealed    int64  `json:"s"`
	Due       int64  `json:"d"`
	Entries   int    `json:"e"`
}

const (
	digestColumns  = "number, client_id, kind_id, channel, recipient, name, sealed, due, entries"
	openDigestRows = ` ON CONFLICT (client_id, kind_id, channel, recipient, name, sealed) DO UPDATE SET
		entries = notify_digests.entries + excluded.entries
		RETURNING client_id, kind_id, channel, recipient, name, number, due, entries`
)

// digestRows selects the rows of a JSON text.
func digestRows(d db.Dialect) string {
	if d == db.Postgres {
		return `SELECT n, c, k, h, r, m, s, d, e FROM json_to_recordset(CAST(CAST(? AS TEXT) AS JSON))
			AS v (n BIGINT, c TEXT, k TEXT, h INTEGER, r TEXT, m TEXT, s BIGINT, d BIGINT, e BIGINT)`
	}
	return `SELECT value ->> 'n', value ->> 'c', value ->> 'k', value ->> 'h', value ->> 'r', value ->> 'm', value ->> 's',
		value ->> 'd', value ->> 'e' FROM json_each(?) WHERE TRUE`
}

func (s *Store) newDigest(g *gathering, n int) newDigest {
	due := s.steady().Add(time.Duration(g.rule.Window))
	return newDigest{rand.Int64N(1<<62) + 1, g.client, g.kind, int(g.channel), g.recipient, g.name, 0, db.Nanos(due), n}
}

// openDigests counts the entries of the digests that collect, and opens the missing ones.
func (s *Store) openDigests(tx *db.Tx, all []*gathering) error {
	rows := make([]newDigest, len(all))
	for i, g := range all {
		rows[i] = s.newDigest(g, len(g.entries))
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	open := make(map[digestKey]openDigest, len(all))
	_, err = db.All(tx, func(row db.Scanner) (k digestKey, err error) {
		var o openDigest
		err = row.Scan(&k.client, &k.kind, &k.channel, &k.recipient, &k.name, &o.number, &o.due, &o.count)
		open[k] = o
		return k, err
	}, "INSERT INTO notify_digests ("+digestColumns+") "+digestRows(tx.Dialect())+openDigestRows, string(text))
	for _, g := range all {
		g.openDigest = open[g.digestKey]
	}
	return err
}

// divide gives each entry its digest. One that has as many as it may is sealed, and is due.
func (s *Store) divide(tx *db.Tx, all []*gathering, changes []change) error {
	var full []int64
	for _, g := range all {
		if g.count >= g.rule.Max {
			full = append(full, g.number)
		}
	}
	live, err := s.liveEntries(tx, full)
	if err != nil {
		return err
	}
	now := db.Nanos(s.steady())
	var opened []newDigest
	for _, g := range all {
		if g.count < g.rule.Max {
			g.assign(changes, g.openDigest, g.entries)
			continue
		}
		o, rest := g.openDigest, g.entries
		o.count = live[o.number] // without those that were canceled
		for isFirst := true; len(rest) > 0; isFirst = false {
			if !isFirst {
				fresh := s.newDigest(g, 0)
				o = openDigest{number: fresh.Number, due: fresh.Due}
			}
			n := min(len(rest), max(g.rule.Max-o.count, 0))
			row := newDigest{o.number, g.client, g.kind, int(g.channel), g.recipient, g.name, 0, o.due, o.count + n}
			if row.Entries >= g.rule.Max {
				row.Sealed, row.Due = o.number, now
			}
			g.assign(changes, openDigest{number: o.number, due: row.Due}, rest[:n])
			rest = rest[n:]
			if isFirst {
				if _, err := tx.Exec("UPDATE notify_digests SET sealed = ?, due = ?, entries = ? WHERE number = ?", row.Sealed,
					row.Due, row.Entries, row.Number); err != nil {
					return err
				}
				continue
			}
			opened = append(opened, row)
		}
	}
	if len(opened) == 0 {
		return nil
	}
	text, err := json.Marshal(opened)
	if err != nil {
		return err
	}
	_, err = tx.Exec("INSERT INTO notify_digests ("+digestColumns+") "+digestRows(tx.Dialect()), string(text))
	return err
}

// assign adds entries to a digest.
func (*gathering) assign(changes []change, to openDigest, entries []int) {
	for _, i := range entries {
		changes[i].digest, changes[i].Due = to.number, db.Time(to.due)
	}
}

// waitingEntries limits messages to those that the index of entries has.
const waitingEntries = " AND digest > 0 AND status < 2"

// liveEntries counts the entries of digests that were stored before and still wait.
func (s *Store) liveEntries(tx *db.Tx, of []int64) (map[int64]int, error) {
	live := make(map[int64]int, len(of))
	if len(of) == 0 {
		return live, nil
	}
	_, err := db.All(tx, func(row db.Scanner) (number int64, err error) {
		var n int
		err = row.Scan(&number, &n)
		live[number] = n
		return number, err
	}, "SELECT digest, COUNT(*) FROM notify_messages WHERE "+query.NumbersIn(tx.Dialect(), "digest")+
		waitingEntries+" GROUP BY digest", query.NumberList(tx.Dialect(), of))
	return live, err
}

// storeEntries takes what is collected out of the queues.
func storeEntries(tx *db.Tx, changes []change) error {
	type entry struct {
		Number int64 `json:"n"`
		Digest int64 `json:"d"`
	}
	var rows []entry
	for _, c := range changes {
		if c.digest != 0 {
			rows = append(rows, entry{c.Number, c.digest})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	from := "(SELECT value ->> 'n' AS n, value ->> 'd' AS d FROM json_each(?)) AS v"
	if tx.Dialect() == db.Postgres {
		from = "json_to_recordset(CAST(CAST(? AS TEXT) AS JSON)) AS v (n BIGINT, d BIGINT)"
	}
	_, err = tx.Exec("UPDATE notify_messages SET lane = lane + 256, digest = v.d FROM "+from+" WHERE number = v.n",
		string(text))
	return err
}
