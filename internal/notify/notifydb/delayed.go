package notifydb

import (
	"maps"
	"slices"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// delayed counts messages by client.
type delayed map[string]waits

// waits are numbers of messages that wait long.
type waits struct {
	// delayed are those that workflows delay or digests collect. A message counts from when it is made until it is
	// final, and again when it is replayed.
	delayed int
	// quiet are the others, while they wait for the end of quiet hours, and paced while they wait because of the pacing
	// of their receiving domain.
	quiet, paced int
}

// change counts n messages of a send by one channel.
func (d delayed) change(send *notify.Send, by notify.ChannelID, n int) {
	if send.Delays(by) {
		w := d[send.ClientID]
		w.delayed += n
		d[send.ClientID] = w
	}
}

// postponed changes whether a message waits for the end of quiet hours, and whether because of pacing.
func (d delayed) postponed(send *notify.Send, m *notify.Message, quiet, paced bool) {
	var w waits
	w.quiet, w.paced = changed(&m.Quiet, quiet), changed(&m.Paced, paced)
	if w == (waits{}) || send.Delays(m.Channel) {
		return
	}
	old := d[send.ClientID]
	old.quiet += w.quiet
	old.paced += w.paced
	d[send.ClientID] = old
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

// made counts new messages of a send.
func (d delayed) made(send *notify.Send, recipients []notify.Recipient) {
	if !send.DelaysAny() {
		return
	}
	for _, r := range recipients {
		d.change(send, r.Channel, 1)
	}
}

// store adds to the numbers of clients. Transactions call it after addCounts and before addWaiting, and change clients
// in the same order, to avoid deadlocks.
func (d delayed) store(tx *db.Tx, shard int) error {
	for _, client := range slices.Sorted(maps.Keys(d)) {
		w := d[client]
		if w == (waits{}) {
			continue
		}
		if _, err := tx.Exec(query.Insert("notify_delayed", "client_id, shard, messages, quiet, paced")+` ON CONFLICT (client_id,
			shard) DO UPDATE SET messages = notify_delayed.messages + excluded.messages,
			quiet = notify_delayed.quiet + excluded.quiet, paced = notify_delayed.paced + excluded.paced`,
			client, shard, w.delayed, w.quiet, w.paced); err != nil {
			return err
		}
	}
	return nil
}

// delays returns how many delayed messages a call causes, as far as that is known: an audience that is read later
// counts as one recipient.
func (a *acceptance) delays() int {
	if !a.DelaysAny() {
		return 0
	}
	count := delayed{}
	count.made(&a.Send, a.Recipients)
	n := count[a.ClientID].delayed
	if a.Expanded {
		return n
	}
	steps := 0
	for _, by := range a.Channels.List() {
		if a.Delays(by) {
			steps++
		}
	}
	return max(n, steps*max(a.Planned, 1))
}

// admitDelayed refuses the sends of a group whose clients have too many delayed messages. Scheduled ones are refused
// too, although they are counted when they are due: otherwise a short delay of the send would evade the limit.
func admitDelayed(tx *db.Tx, batch []*acceptance) error {
	var clients []string
	for _, a := range batch {
		if a.err == nil && !a.replayed && a.DelayedLimit > 0 && a.DelaysAny() {
			clients = append(clients, a.ClientID)
		}
	}
	if len(clients) == 0 {
		return nil
	}
	stored, err := delayedOf(tx, clients)
	if err != nil {
		return err
	}
	known := map[string]int{}
	for client, w := range stored {
		known[client] = w.delayed
	}
	for _, a := range batch {
		if a.err != nil || a.replayed || a.DelayedLimit <= 0 {
			continue
		}
		n := a.delays()
		if n == 0 || known[a.ClientID]+n <= a.DelayedLimit {
			known[a.ClientID] += n
			continue
		}
		if err := refuse(tx, batch, a, notify.ErrDelayedFull); err != nil {
			return err
		}
	}
	return nil
}

// delayedOf returns the numbers of clients.
func delayedOf(tx *db.Tx, clients []string) (delayed, error) {
	list, err := query.TextList(clients)
	if err != nil {
		return nil, err
	}
	known := delayed{}
	_, err = db.All(tx, func(row db.Scanner) (w waits, err error) {
		var client string
		err = row.Scan(&client, &w.delayed, &w.quiet, &w.paced)
		known[client] = w
		return w, err
	}, "SELECT client_id, SUM(messages), SUM(quiet), SUM(paced) FROM notify_delayed WHERE "+
		query.TextsIn(tx.Dialect(), "client_id")+" GROUP BY client_id", list)
	return known, err
}
