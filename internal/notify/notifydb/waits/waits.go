package waits

import (
	"maps"
	"slices"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Count is how many messages of a client wait long. Each counts once.
type Count struct {
	// Delayed are those that workflows delay or digests collect. A message counts from when it is made until it is
	// final, and again when it is replayed.
	Delayed int
	// Quiet are the others, while they wait for the end of quiet hours, and Postponed those that wait for another attempt
	// for any other reason, by channel.
	Quiet     int
	Postponed [notify.ChannelCount]int
}

// Counts are those of clients, or how they change.
type Counts map[string]Count

// Change counts n messages of a send by one channel, if something delays them.
func (c Counts) Change(send *notify.Send, by notify.ChannelID, n int) {
	if send.Delays(by) {
		w := c[send.ClientID]
		w.Delayed += n
		c[send.ClientID] = w
	}
}

// Postpone changes whether a message waits for the end of quiet hours, and whether for another attempt.
func (c Counts) Postpone(send *notify.Send, m *notify.Message, quiet, postponed bool) {
	inQuiet, inPostponed := changed(&m.Quiet, quiet), changed(&m.Postponed, postponed)
	if inQuiet == 0 && inPostponed == 0 || send.Delays(m.Channel) {
		return
	}
	w := c[send.ClientID]
	w.Quiet += inQuiet
	w.Postponed[m.Channel] += inPostponed
	c[send.ClientID] = w
}

// changed sets a flag, and returns how the number of those that are set changes.
func changed(flag *bool, to bool) int {
	was := *flag
	*flag = to
	switch {
	case to && !was:
		return 1
	case was && !to:
		return -1
	}
	return 0
}

// Made counts new messages of a send.
func (c Counts) Made(send *notify.Send, recipients []notify.Recipient) {
	if !send.DelaysAny() {
		return
	}
	for _, r := range recipients {
		c.Change(send, r.Channel, 1)
	}
}

// Full returns the channels among some by which a client may send nothing while many of its messages wait for another
// attempt: those that have a tenth of the limit, if all have the whole.
func (c Count) Full(by notify.Channels, limit int) (full []notify.ChannelID) {
	all := 0
	for _, n := range c.Postponed {
		all += n
	}
	if limit <= 0 || all < limit {
		return nil
	}
	for _, id := range by.List() {
		if c.Postponed[id] >= max(1, limit/10) {
			full = append(full, id)
		}
	}
	return full
}

// Store adds to the numbers of clients. Transactions change clients in the same order, to avoid deadlocks.
func (c Counts) Store(tx *db.Tx, shard int) error {
	clients := slices.Sorted(maps.Keys(c))
	for _, client := range clients {
		w := c[client]
		if w.Delayed == 0 && w.Quiet == 0 {
			continue
		}
		if _, err := tx.Exec(query.Insert("notify_delayed", "client_id, shard, messages, quiet")+` ON CONFLICT (client_id,
			shard) DO UPDATE SET messages = notify_delayed.messages + excluded.messages,
			quiet = notify_delayed.quiet + excluded.quiet`, client, shard, w.Delayed, w.Quiet); err != nil {
			return err
		}
	}
	for _, client := range clients {
		for channel, n := range c[client].Postponed {
			if n == 0 {
				continue
			}
			if _, err := tx.Exec(query.Insert("notify_postponed", "client_id, channel, shard, messages")+` ON CONFLICT (client_id,
				channel, shard) DO UPDATE SET messages = notify_postponed.messages + excluded.messages`, client, channel, shard,
				n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Of returns the numbers of clients.
func Of(tx *db.Tx, clients []string) (Counts, error) {
	list, err := query.TextList(clients)
	if err != nil {
		return nil, err
	}
	known := Counts{}
	if _, err := db.All(tx, func(row db.Scanner) (client string, err error) {
		var w Count
		err = row.Scan(&client, &w.Delayed, &w.Quiet)
		known[client] = w
		return client, err
	}, "SELECT client_id, SUM(messages), SUM(quiet) FROM notify_delayed WHERE "+
		query.TextsIn(tx.Dialect(), "client_id")+" GROUP BY client_id", list); err != nil {
		return nil, err
	}
	_, err = db.All(tx, func(row db.Scanner) (client string, err error) {
		var channel, n int
		if err = row.Scan(&client, &channel, &n); err == nil && channel < notify.ChannelCount {
			w := known[client]
			w.Postponed[channel] = n
			known[client] = w
		}
		return client, err
	}, "SELECT client_id, channel, SUM(messages) FROM notify_postponed WHERE "+
		query.TextsIn(tx.Dialect(), "client_id")+" GROUP BY client_id, channel", list)
	return known, err
}

// Postponed returns how many messages of all clients wait for another attempt, by channel.
func Postponed(tx *db.Tx) (all [notify.ChannelCount]int, err error) {
	_, err = db.All(tx, func(row db.Scanner) (channel int, err error) {
		n := 0
		if err = row.Scan(&channel, &n); err == nil && channel < notify.ChannelCount {
			all[channel] = n
		}
		return channel, err
	}, "SELECT channel, SUM(messages) FROM notify_postponed GROUP BY channel")
	return all, err
}
