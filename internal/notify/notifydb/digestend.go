package notifydb

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/figures"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/repeats"
	"ingot/internal/notify/notifydb/usage"
	"ingot/internal/notify/notifydb/waits"
)

const (
	// digestEntries limits the entries of one transaction, digestBytes the contents that are read at a time.
	digestEntries = 1000
	digestBytes   = 4 << 20
	// digestClients is how many clients are looked at for one transaction.
	digestClients = 100

	reasonExpired = "expired: it was not delivered in time"
)

// digestTurn is the client after which the next search for due digests begins, so that clients come in turn.
type digestTurn struct {
	mu    sync.Mutex
	after string
}

const (
	firstDigest = "SELECT due FROM notify_digests ORDER BY due LIMIT 1"
	nextClient  = "SELECT client_id FROM notify_digests WHERE client_id > ? ORDER BY client_id LIMIT 1"
	dueDigests  = "SELECT number, entries FROM notify_digests WHERE client_id = ? AND due <= ? " +
		"ORDER BY due, number LIMIT ?"
)

// CloseDigests implements notify.Store.
func (s *Store) CloseDigests(ctx context.Context, limit int, excerpt notify.Excerpt) (notify.DigestsClosed,
	error) {
	next, numbers, err := s.dueDigests(ctx, limit)
	if err != nil || len(numbers) == 0 {
		return notify.DigestsClosed{Next: query.MomentOf(next)}, err
	}
	first, err := s.take(ctx, len(numbers))
	if err != nil {
		return notify.DigestsClosed{}, err
	}
	e := &ending{Store: s, first: first, excerpt: excerpt, now: s.now(), due: s.steady(), shard: s.shard()}
	err = s.usage.Freeing(ctx, func(tx *db.Tx) (more []usage.Freed, err error) {
		if more, err = e.end(tx, numbers); err != nil {
			return nil, err
		}
		list, err := db.All(tx, query.ScanNumber, firstDigest)
		next = math.MaxInt64
		if err == nil && len(list) > 0 {
			next = list[0]
		}
		return more, err
	})
	if err != nil {
		return notify.DigestsClosed{}, err
	}
	s.figures.Committed(&e.figures)
	s.held.queued(notify.PriorityBulk, e.due)
	e.closed.Next = query.MomentOf(next)
	return e.closed, nil
}

// dueDigests returns when the first digest is due, and the numbers of those that are, of several clients.
func (s *Store) dueDigests(ctx context.Context, limit int) (next int64, numbers []int64, err error) {
	s.digests.mu.Lock()
	defer s.digests.mu.Unlock()
	now := db.Nanos(s.steady())
	_, err = query.View(ctx, s.db, func(tx *db.Tx) (bool, error) {
		next, numbers = math.MaxInt64, nil
		if err := query.UseIndexes(tx); err != nil {
			return false, err
		}
		list, err := db.All(tx, query.ScanNumber, firstDigest)
		if err != nil || len(list) == 0 {
			return false, err
		}
		if next = list[0]; next > now {
			return false, nil
		}
		numbers, err = s.inTurn(tx, now, limit)
		return true, err
	})
	return next, numbers, err
}

// inTurn returns due digests: the first of some clients, then their second, and so on.
func (s *Store) inTurn(tx *db.Tx, now int64, limit int) ([]int64, error) {
	type digest struct {
		number  int64
		entries int
	}
	var found [][]digest
	after, wrapped := s.digests.after, false
	for begin := after; len(found) < digestClients; {
		client, err := query.One(tx, query.ScanText, nextClient, after)
		if query.IsNotFound(err) {
			if wrapped || begin == "" {
				break
			}
			after, wrapped = "", true
			continue
		}
		if err != nil {
			return nil, err
		}
		if wrapped && client > begin {
			break
		}
		after = client
		list, err := db.All(tx, func(row db.Scanner) (d digest, err error) {
			err = row.Scan(&d.number, &d.entries)
			return d, err
		}, dueDigests, client, now, limit)
		if err != nil {
			return nil, err
		}
		if len(list) > 0 {
			found = append(found, list)
		}
	}
	s.digests.after = after
	var numbers []int64
	for i, entries := 0, 0; len(found) > 0; i++ {
		found = slices.DeleteFunc(found, func(list []digest) bool { return len(list) <= i })
		for _, list := range found {
			entries += list[i].entries
			if len(numbers) == limit || len(numbers) > 0 && entries > digestEntries {
				return numbers, nil
			}
			numbers = append(numbers, list[i].number)
		}
	}
	return numbers, nil
}

// ending ends digests in one transaction.
type ending struct {
	*Store
	first   int64 // of the numbers of sends
	excerpt notify.Excerpt
	now     time.Time
	due     time.Time
	shard   int

	drafts  map[int64]*notify.DigestDraft
	figures figures.Changes // hides those of the store
	block   storedBlock     // the latest one that was read
	closed  notify.DigestsClosed
}

// end ends digests, and returns what their clients have more.
func (e *ending) end(tx *db.Tx, numbers []int64) ([]usage.Freed, error) {
	e.figures = figures.Changes{}
	e.closed, e.drafts, e.block = notify.DigestsClosed{}, map[int64]*notify.DigestDraft{}, storedBlock{}
	if err := query.UseIndexes(tx); err != nil {
		return nil, err
	}
	// Another process may have been faster with some, and is ending others.
	numbers, err := db.All(tx, query.ScanNumber, "SELECT number FROM notify_digests WHERE "+
		query.NumbersIn(tx.Dialect(), "number")+
		" AND due <= ? ORDER BY number"+query.SkipLocked(tx.Dialect()), query.NumberList(tx.Dialect(),
		numbers), db.Nanos(e.due))
	if err != nil || len(numbers) == 0 {
		return nil, err
	}
	entries, err := db.All(tx, scanEntry, "SELECT "+messageColumns+", digest FROM notify_messages WHERE "+
		query.NumbersIn(tx.Dialect(), "digest")+waitingEntries+" ORDER BY number"+query.ForUpdate(tx.Dialect()),
		query.NumberList(tx.Dialect(), numbers))
	if err != nil {
		return nil, err
	}
	if err := e.read(tx, entries); err != nil {
		return nil, err
	}
	made, err := e.sends(numbers)
	if err != nil {
		return nil, err
	}
	if err := e.finish(tx, entries, made.of); err != nil { // counts before those of store, as everywhere
		return nil, err
	}
	if err := store(tx, e.shard, made.sends, made.messages, nil); err != nil {
		return nil, err
	}
	_, err = tx.Exec("DELETE FROM notify_digests WHERE "+query.NumbersIn(tx.Dialect(), "number"),
		query.NumberList(tx.Dialect(), numbers))
	if err == nil {
		err = e.Store.figures.Store(tx, &e.figures, e.shard)
	}
	e.closed.Digests = len(numbers)
	return made.more, err
}

// entry is a message that was collected.
type entry struct {
	notify.Message
	digest int64
	send   notify.Send // without contents
	status notify.Status
}

func scanEntry(row db.Scanner) (*entry, error) {
	e := &entry{status: notify.Digested}
	var err error
	e.Message, err = scanMessage(query.Longer(row, &e.digest))
	return e, err
}

// read reads the contents of entries, some at a time, and adds them to the drafts of their digests.
func (e *ending) read(tx *db.Tx, entries []*entry) error {
	type sized struct{ number, bytes int64 }
	var sends []int64
	of := map[int64][]*entry{}
	for _, one := range entries {
		n := notify.SendOf(one.Number)
		sends = append(sends, n)
		of[n] = append(of[n], one)
	}
	sizes, err := db.All(tx, func(row db.Scanner) (one sized, err error) {
		err = row.Scan(&one.number, &one.bytes)
		return one, err
	}, "SELECT number, octet_length(data) FROM notify_sends WHERE "+query.NumbersIn(tx.Dialect(), "number")+
		" ORDER BY number", query.NumberList(tx.Dialect(), slices.Compact(sends)))
	if err != nil {
		return err
	}
	for len(sizes) > 0 {
		var part []int64
		for bytes := int64(0); len(sizes) > 0 && (len(part) == 0 || bytes+sizes[0].bytes <= digestBytes); sizes = sizes[1:] {
			part, bytes = append(part, sizes[0].number), bytes+sizes[0].bytes
		}
		rows, err := db.All(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE "+
			query.NumbersIn(tx.Dialect(), "number")+" ORDER BY number", query.NumberList(tx.Dialect(), part))
		if err != nil {
			return err
		}
		for i := range rows {
			for _, one := range of[rows[i].Number] {
				if err := e.add(tx, one, &rows[i].Send); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// add adds an entry to the draft of its digest, unless it was canceled or has expired.
func (e *ending) add(tx *db.Tx, one *entry, s *notify.Send) error {
	one.send = notify.Send{Number: s.Number, ClientID: s.ClientID, KindID: s.KindID, CampaignTypeID: s.CampaignTypeID,
		Workflow: s.Workflow, Channels: s.Channels, DigestRule: s.DigestRule}
	switch {
	case one.Canceled:
		one.status = notify.Canceled
		return nil
	case !s.ExpiresAt.IsZero() && !e.now.Before(s.ExpiresAt):
		one.status = notify.Undeliverable
		return nil
	}
	data, locale, phone := s.Data, s.Locale, ""
	if list := s.List(); list != "" && one.Channel != notify.Chat {
		m, err := e.member(tx, list, one.Audience)
		if err != nil {
			return err
		}
		if one.Channel == notify.SMS {
			phone = m.Phone
		}
		if m.Locale != "" {
			locale = m.Locale
		}
		if data, err = merged(s.Data, m.Data); err != nil {
			return err
		}
	}
	draft := e.drafts[one.digest]
	if draft == nil {
		draft = &notify.DigestDraft{}
		e.drafts[one.digest] = draft
	}
	draft.Add(&one.Message, s, data, locale, e.excerpt)
	draft.Call(phone)
	return nil
}

// merged returns the data of a send with that of a recipient.
func merged(common, own json.RawMessage) (json.RawMessage, error) {
	if len(own) == 0 {
		return common, nil
	}
	data, err := notify.DecodeData(common)
	if err != nil {
		return nil, err
	}
	if data, err = notify.MergeData(data, own); err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// member returns a member of a list. Others in its block are seldom wanted: the entries of a digest come from as many
// lists.
func (e *ending) member(tx *db.Tx, list string, position int) (m notify.Member, err error) {
	at := position - position%notify.ListBlock
	if e.block.list != list || e.block.position != at {
		e.block = storedBlock{list: list, position: at}
		e.block.members, err = query.One(tx, func(row db.Scanner) (members []byte, err error) {
			err = row.Scan(&members)
			return members, err
		}, "SELECT members FROM notify_list_members WHERE list = ? AND position = ?", list, at)
		if err != nil && !query.IsNotFound(err) {
			return m, err
		}
	}
	one, found := query.Element(e.block.members, position-at)
	if !found {
		return m, nil
	}
	err = json.Unmarshal(one, &m)
	return m, err
}

// storedBlock is a block of a list as it is stored.
type storedBlock struct {
	list     string
	position int
	members  []byte
}

// made are the sends of digests.
type made struct {
	sends    []newSend
	messages []newMessage
	of       map[int64]int64 // the numbers of messages, by those of digests
	more     []usage.Freed   // what they take
}

// sends makes the sends of digests.
func (e *ending) sends(numbers []int64) (made, error) {
	m := made{of: map[int64]int64{}, messages: []newMessage{}}
	for i, number := range numbers {
		draft := e.drafts[number]
		if draft == nil {
			continue // nothing is left of it
		}
		s, to := draft.Send(e.first+int64(i), e.now)
		data, err := encodeSend(&s)
		if err != nil {
			return m, err
		}
		m.sends = append(m.sends, newSend{Number: s.Number, Client: s.ClientID, Kind: s.KindID,
			Received: db.Nanos(s.Received), Data: data, Audience: s.Cursor.Audience, Next: 1, Expanded: db.Nanos(e.now),
			Kept: keptHours(&s)})
		// Many that are due at once do not delay single messages.
		m.messages = appendMessages(m.messages, &s, 0, notify.PriorityBulk, e.due, []notify.Recipient{to})
		m.of[number] = notify.MessageNumber(s.Number, 0)
		m.more = append(m.more, usage.Freed{Client: s.ClientID, Bytes: -usage.SendSize(data)})
	}
	return m, nil
}

// finish makes entries final.
func (e *ending) finish(tx *db.Tx, entries []*entry, messages map[int64]int64) error {
	reasons := map[notify.Status]string{notify.Canceled: reasonCanceled, notify.Undeliverable: reasonExpired}
	type ends struct {
		status notify.Status
		digest int64
	}
	f := finish{counts: map[int64]*tallied{}, delays: waits.Counts{}}
	groups := map[ends][]int64{}
	for _, one := range entries {
		end := ends{status: one.status}
		if one.status == notify.Digested {
			end.digest = messages[one.digest]
			e.closed.Entries++
		}
		groups[end] = append(groups[end], one.Number)
		f.apply(&one.Message, notify.Outcome{Number: one.Number, Status: one.status, At: e.now}, &one.send)
		f.delays.Change(&one.send, one.Channel, -1)
	}
	for end, list := range groups {
		status, _ := statusNumber(end.status)
		if _, err := tx.Exec("UPDATE notify_messages SET status = ?, lane = lane & 255, due = 0, updated = ?, "+
			"parked = FALSE, quiet = FALSE, digest = ?, reason = ? WHERE "+query.NumbersIn(tx.Dialect(), "number"), status,
			db.Nanos(e.now), end.digest, reasons[end.status], query.NumberList(tx.Dialect(), list)); err != nil {
			return err
		}
	}
	e.figures = f.figures
	if err := f.storeCounts(tx, e.shard); err != nil {
		return err
	}
	if err := f.delays.Store(tx, e.shard); err != nil {
		return err
	}
	return addWaiting(tx, e.shard, f.waiting)
}

// eraseDigests deletes what is stored about digests of the person: their names come from data. Their entries were
// canceled before, and those that are being delivered make it wait.
func (s *Store) eraseDigests(ctx context.Context, e *erasure) error {
	var recipients []string
	for c := range notify.ChannelID(notify.ChannelCount) {
		if e.UserID != "" {
			recipients = append(recipients, repeats.MemberOf(notify.Recipient{UserID: e.UserID, Channel: c}))
		}
		if e.Email != "" {
			recipients = append(recipients, repeats.MemberOf(notify.Recipient{Email: e.Email, Channel: c}))
		}
	}
	list, err := query.TextList(recipients)
	if err != nil {
		return err
	}
	return s.lock(ctx, func(tx *db.Tx) error {
		where, args := query.TextsIn(tx.Dialect(), "recipient"), []any{list}
		if !e.All {
			where, args = where+" AND client_id = ?", append(args, e.ClientID)
		}
		_, err := tx.Exec("DELETE FROM notify_digests WHERE "+where+" AND NOT EXISTS (SELECT 1 FROM notify_messages AS m "+
			"WHERE m.digest = notify_digests.number AND m.digest > 0 AND m.status < 2)", args...)
		return err
	})
}
