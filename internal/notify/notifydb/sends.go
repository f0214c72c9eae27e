package notifydb

import (
	"cmp"
	"container/list"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/waits"
)

// sendData holds the fields of a send that never change and are not queried.
type sendData struct {
	SenderID          string             `json:"sender,omitempty"`
	CampaignTypeID    string             `json:"type,omitempty"`
	Critical          bool               `json:"critical,omitempty"`
	KindDescription   string             `json:"kind,omitempty"`
	SourceDescription string             `json:"source,omitempty"`
	TemplateID        string             `json:"template,omitempty"`
	Audiences         []notify.Audience  `json:"audiences,omitempty"`
	Content           notify.Content     `json:"content"`
	RequestID         string             `json:"request,omitempty"`
	Trace             string             `json:"trace,omitempty"`
	Data              json.RawMessage    `json:"data,omitempty"`
	Locale            string             `json:"locale,omitempty"`
	Channels          notify.Channels    `json:"channels,omitempty"`
	Workflow          *notify.Workflow   `json:"workflow,omitempty"`
	SendAt            int64              `json:"at,omitempty"`
	ExpiresAt         int64              `json:"until,omitempty"`
	DigestRule        *notify.DigestRule `json:"collect,omitempty"`
	Digest            *notify.Digest     `json:"digest,omitempty"`

	Attachments  []notify.Attachment  `json:"files,omitempty"`
	ThrottleRule *notify.ThrottleRule `json:"throttle,omitempty"`
	Kept         int                  `json:"kept,omitempty"` // hours
	Tracking     notify.Tracking      `json:"track,omitempty"`
}

// encodeSend encodes the data column. Texts were checked: JSON would hide a
// NUL.
func encodeSend(s *notify.Send) (string, error) {
	texts := []string{
		s.SenderID, s.CampaignTypeID, s.KindDescription, s.SourceDescription, s.TemplateID, s.RequestID, s.Trace,
		s.Content.Subject, s.Content.Text, s.Content.HTML, s.Content.ReplyTo, s.Content.Thread,
		s.ClientID, s.KindID, s.Cursor.Page, s.Locale,
	}
	for _, a := range s.Attachments {
		texts = append(texts, a.Name, a.Type, a.ID, a.Inline)
	}
	for _, a := range s.Audiences {
		texts = append(texts, string(a.Type), a.ID, a.Role, a.SpaceName, a.OrgID, a.OrgName)
	}
	if err := query.AllStorable(texts...); err != nil {
		return "", err
	}
	out, err := json.Marshal(sendData{
		s.SenderID, s.CampaignTypeID, s.Critical, s.KindDescription, s.SourceDescription, s.TemplateID,
		s.Audiences, s.Content, s.RequestID, s.Trace, s.Data, s.Locale, s.Channels, s.Workflow,
		db.Nanos(s.SendAt), db.Nanos(s.ExpiresAt), s.DigestRule, s.Digest, s.Attachments, s.ThrottleRule,
		keptHours(s), s.Tracking,
	})
	return string(out), err
}

const (
	newSendColumns = "number, client_id, kind_id, received, data, cursor_audience, cursor_page, next, tally, expanded"
	sendColumns    = newSendColumns + ", canceled"
	// insertedColumns are those of a row that is inserted.
	insertedColumns = newSendColumns + ", kept, lease_owner, lease_until"
)

// sendRow is a send as it is stored.
type sendRow struct {
	notify.Send
	next     int
	tally    bool
	expanded time.Time
}

func scanSend(row db.Scanner) (r sendRow, err error) {
	var data db.JSON[sendData]
	err = row.Scan(&r.Number, &r.ClientID, &r.KindID, query.Moment(&r.Received), &data,
		&r.Cursor.Audience, &r.Cursor.Page, &r.next, &r.tally, query.Moment(&r.expanded), query.Moment(&r.Canceled))
	r.set(&data.V)
	r.Expanded = !r.expanded.IsZero()
	return r, err
}

// set sets the fields of the data column.
func (r *sendRow) set(d *sendData) {
	r.SenderID, r.CampaignTypeID, r.Critical = d.SenderID, d.CampaignTypeID, d.Critical
	r.KindDescription, r.SourceDescription, r.TemplateID = d.KindDescription, d.SourceDescription, d.TemplateID
	r.Audiences, r.Content, r.RequestID, r.Trace = d.Audiences, d.Content, d.RequestID, d.Trace
	r.Channels, r.Workflow, r.DigestRule, r.Digest = d.Channels, d.Workflow, d.DigestRule, d.Digest
	r.Data, r.Locale, r.SendAt, r.ExpiresAt = d.Data, d.Locale, db.Time(d.SendAt), db.Time(d.ExpiresAt)
	r.Attachments, r.ThrottleRule = d.Attachments, d.ThrottleRule
	r.Kept, r.Tracking = time.Duration(d.Kept)*time.Hour, d.Tracking
}

// keptHours returns how many hours messages are kept after they are final; 0 is the server's default.
func keptHours(s *notify.Send) int { return int(s.Kept / time.Hour) }

// Send implements notify.Store.
func (s *Store) Send(ctx context.Context, number int64) (notify.Send, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.Send, error) {
		return findSend(tx, number)
	})
}

// findSend returns a send, which may be scheduled.
func findSend(tx *db.Tx, number int64) (notify.Send, error) {
	const statement = "SELECT " + sendColumns + " FROM notify_sends WHERE number = ?"
	row, err := query.One(tx, scanSend, statement, number)
	if query.IsNotFound(err) {
		var later sendRow
		later, err = query.One(tx, scanScheduled, "SELECT "+scheduledColumns+" FROM notify_scheduled WHERE number = ?",
			number)
		if err == nil {
			return later.Send, nil
		}
	}
	if query.IsNotFound(err) { // it may have been started between the two
		row, err = query.One(tx, scanSend, statement, number)
	}
	if err != nil {
		return notify.Send{}, err
	}
	err = count(tx, &row)
	return row.Send, err
}

// ListSends implements notify.Store.
func (s *Store) ListSends(ctx context.Context, q notify.SendQuery) ([]notify.Send, error) {
	if q.Before <= 0 {
		q.Before = 1<<63 - 1
	}
	where, args := "client_id = ? AND number < ?", []any{q.ClientID, q.Before}
	if q.All {
		where, args = "number < ?", args[1:]
	}
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Send, error) {
		rows, err := query.Matching(tx, scanSend, "SELECT "+sendColumns+
			" FROM notify_sends WHERE "+where+" ORDER BY number DESC LIMIT ?", append(args, q.Limit)...)
		if err != nil {
			return nil, err
		}
		later, err := query.Matching(tx, scanScheduled, "SELECT "+scheduledColumns+
			" FROM notify_scheduled WHERE "+where+" ORDER BY number DESC LIMIT ?", append(args, q.Limit)...)
		if err != nil {
			return nil, err
		}
		sends := make([]notify.Send, 0, len(rows)+len(later))
		for i := range rows {
			if err := count(tx, &rows[i]); err != nil {
				return nil, err
			}
			sends = append(sends, rows[i].Send)
		}
		for i := range later {
			sends = append(sends, later[i].Send)
		}
		slices.SortFunc(sends, func(a, b notify.Send) int { return cmp.Compare(b.Number, a.Number) })
		// One that was started between the two queries is in both.
		sends = slices.CompactFunc(sends, func(a, b notify.Send) bool { return a.Number == b.Number })
		return sends[:min(len(sends), max(q.Limit, 0))], nil
	})
}

// volumeSends is how many sends Volumes looks at.
const volumeSends = 50_000

// Volumes implements notify.Store.
func (s *Store) Volumes(ctx context.Context, since time.Time) ([]notify.Volume, error) {
	const day = int64(24 * time.Hour)
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Volume, error) {
		return query.Matching(tx, func(row db.Scanner) (v notify.Volume, err error) {
			var number int64
			err = row.Scan(&v.ClientID, &v.KindID, &number, &v.Sends, &v.Messages)
			v.Day = db.Time(number * day)
			return v, err
		}, `SELECT client_id, kind_id, day, COUNT(*), SUM(next) FROM
				(SELECT client_id, kind_id, received / ? AS day, received, next FROM notify_sends ORDER BY number DESC LIMIT ?) AS latest
			WHERE received >= ? GROUP BY client_id, kind_id, day`, day, volumeSends, db.Nanos(since))
	})
}

// count sets Counts and Finished.
func count(tx *db.Tx, r *sendRow) error {
	var latest int64
	c := &r.Counts
	err := tx.QueryRow(`SELECT COALESCE(SUM(total), 0), COALESCE(SUM(queued), 0), COALESCE(SUM(retry), 0), COALESCE(SUM(delivered), 0),
			COALESCE(SUM(failed), 0), COALESCE(SUM(undeliverable), 0), COALESCE(SUM(unsubscribed), 0), COALESCE(SUM(canceled), 0),
			COALESCE(SUM(skipped), 0), COALESCE(SUM(digested), 0), COALESCE(SUM(throttled), 0), COALESCE(MAX(latest), 0)
			FROM notify_counts WHERE send = ?`, r.Number).
		Scan(&c.Total, &c.Queued, &c.Retry, &c.Delivered, &c.Failed, &c.Undeliverable, &c.Unsubscribed, &c.Canceled,
			&c.Skipped, &c.Digested, &c.Throttled, &latest)
	if err != nil {
		return err
	}
	if !r.tally {
		type byStatus struct {
			status, n int
			latest    int64
		}
		all, err := db.All(tx, func(row db.Scanner) (b byStatus, err error) {
			err = row.Scan(&b.status, &b.n, &b.latest)
			return b, err
		}, "SELECT status, COUNT(*), MAX(updated) FROM notify_messages WHERE number >= ? AND number < ? GROUP BY status",
			notify.MessageNumber(r.Number, 0), notify.MessageNumber(r.Number+1, 0))
		if err != nil {
			return err
		}
		for _, b := range all {
			c.Total += b.n
			*counter(c, b.status) += b.n
			latest = max(latest, b.latest)
		}
	}
	if r.Expanded && c.Queued+c.Retry == 0 {
		r.Finished = db.Time(max(latest, db.Nanos(r.expanded)))
	}
	return nil
}

// statuses are indexed by their number in the database.
var statuses = [...]notify.Status{notify.Queued, notify.Retry, notify.Delivered, notify.Failed, notify.Undeliverable,
	notify.Unsubscribed, notify.Canceled, notify.Skipped, notify.Digested, notify.Throttled}

func statusNumber(s notify.Status) (int, bool) {
	for i, known := range statuses {
		if s == known {
			return i, true
		}
	}
	return 0, false
}

// counter returns the counter of a status.
func counter(c *notify.Counts, status int) *int {
	return [...]*int{&c.Queued, &c.Retry, &c.Delivered, &c.Failed, &c.Undeliverable, &c.Unsubscribed,
		&c.Canceled, &c.Skipped, &c.Digested, &c.Throttled}[status]
}

const countColumns = "send, shard, total, queued, retry, delivered, failed, undeliverable, unsubscribed, canceled, " +
	"skipped, digested, throttled, latest"

// addCounts adds to the counters of a send.
func addCounts(tx *db.Tx, send int64, shard int, c notify.Counts, latest int64) error {
	_, err := tx.Exec(query.Insert("notify_counts", countColumns)+` ON CONFLICT (send, shard) DO UPDATE SET
			total = notify_counts.total + excluded.total, queued = notify_counts.queued + excluded.queued,
			retry = notify_counts.retry + excluded.retry, delivered = notify_counts.delivered + excluded.delivered,
			failed = notify_counts.failed + excluded.failed, undeliverable = notify_counts.undeliverable + excluded.undeliverable,
			unsubscribed = notify_counts.unsubscribed + excluded.unsubscribed,
			canceled = notify_counts.canceled + excluded.canceled, skipped = notify_counts.skipped + excluded.skipped,
			digested = notify_counts.digested + excluded.digested, throttled = notify_counts.throttled + excluded.throttled,
			latest = CASE WHEN excluded.latest > notify_counts.latest THEN excluded.latest ELSE notify_counts.latest END`,
		send, shard, c.Total, c.Queued, c.Retry, c.Delivered, c.Failed, c.Undeliverable, c.Unsubscribed, c.Canceled,
		c.Skipped, c.Digested, c.Throttled, latest)
	return err
}

// addWaiting adds to the number of waiting messages.
func addWaiting(tx *db.Tx, shard, n int) error {
	if n == 0 {
		return nil
	}
	_, err := tx.Exec(intoBacklog, shard, n)
	return err
}

const intoBacklog = `INSERT INTO notify_backlog (shard, waiting) VALUES (?, ?)
	ON CONFLICT (shard) DO UPDATE SET waiting = notify_backlog.waiting + excluded.waiting`

func waiting(tx *db.Tx) (n int, err error) {
	err = tx.QueryRow("SELECT COALESCE(SUM(waiting), 0) FROM notify_backlog").Scan(&n)
	return n, err
}

// Waiting implements notify.Store.
func (s *Store) Waiting(ctx context.Context) (int, error) { return query.Read(ctx, s.db, waiting) }

// Postponed implements notify.Store.
func (s *Store) Postponed(ctx context.Context) ([notify.ChannelCount]int, error) {
	return query.Read(ctx, s.db, waits.Postponed)
}

// sendCache caches the content of large sends, so that it is not read with each
// claim, and of small ones until they are claimed. It is limited in number and
// size.
type sendCache struct {
	mu    sync.Mutex
	order list.List // of *notify.Send, the latest used first
	known map[int64]*list.Element
	bytes int
}

const (
	cachedSends = 1000
	cachedBytes = 8 << 20
)

func sizeOf(s *notify.Send) int {
	return 512 + s.Digest.Size() + len(s.Content.Subject) + len(s.Content.Text) + len(s.Content.HTML) + len(s.Data) +
		512*len(s.Attachments) + s.Content.Event.Size()
}

func (c *sendCache) get(number int64) *notify.Send {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[number]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*notify.Send)
}

func (c *sendCache) put(s *notify.Send) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[int64]*list.Element{}
	}
	if c.known[s.Number] != nil {
		return
	}
	c.known[s.Number] = c.order.PushFront(s)
	c.bytes += sizeOf(s)
	for c.order.Len() > cachedSends || c.bytes > cachedBytes && c.order.Len() > 1 {
		last := c.order.Back()
		old := c.order.Remove(last).(*notify.Send)
		delete(c.known, old.Number)
		c.bytes -= sizeOf(old)
	}
}

// sendsOf returns the sends with these numbers; missing ones are omitted.
// Fields that change are not set.
func (s *Store) sendsOf(tx *db.Tx, numbers []int64) (map[int64]*notify.Send, error) {
	known := make(map[int64]*notify.Send, len(numbers))
	var unknown []int64
	for _, n := range numbers {
		if send := s.sends.get(n); send != nil {
			known[n] = send
		} else {
			unknown = append(unknown, n)
		}
	}
	if len(unknown) == 0 {
		return known, nil
	}
	rows, err := db.All(tx, scanSend, "SELECT "+sendColumns+" FROM notify_sends WHERE "+
		query.NumbersIn(tx.Dialect(), "number"), query.NumberList(tx.Dialect(), unknown))
	if err != nil {
		return nil, err
	}
	for i := range rows {
		send := rows[i].Send
		send.Cursor = notify.Cursor{}
		known[send.Number] = &send
		if rows[i].tally {
			s.sends.put(&send)
		}
	}
	return known, nil
}
