package notifydb

import (
	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/waits"
)

// delays returns how many delayed messages a call causes, as far as that is known: an audience that is read later
// counts as one recipient.
func (a *acceptance) delays() int {
	if !a.DelaysAny() {
		return 0
	}
	count := waits.Counts{}
	count.Made(&a.Send, a.Recipients)
	n := count[a.ClientID].Delayed
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
	stored, err := waits.Of(tx, clients)
	if err != nil {
		return err
	}
	known := map[string]int{}
	for client, w := range stored {
		known[client] = w.Delayed
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
