package notifydb

import (
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/waits"
)

// waitLoad is what the leader of accepting knows about messages that wait for the end of quiet hours or for another
// attempt, by client, so that it need not read it for every group.
type waitLoad struct {
	known waits.Counts
	read  time.Time
}

// admit refuses sends that may wait for the end of quiet hours or for another attempt, of clients of which too many do.
// Which messages wait is only known when they are delivered, so those that are on their way come on top.
func (l *waitLoad) admit(tx *db.Tx, batch []*acceptance) error {
	if time.Since(l.read) >= backlogFor {
		l.known, l.read = waits.Counts{}, time.Now()
	}
	var ask []string
	for _, a := range batch {
		if !a.mayWait() && !a.mayBePostponed() {
			continue
		}
		_, known := l.known[a.ClientID]
		if !known || a.mayWait() && a.QuietLimit < backlogLarge || a.mayBePostponed() && a.PostponedLimit < backlogLarge {
			ask = append(ask, a.ClientID)
		}
	}
	if len(ask) > 0 {
		stored, err := waits.Of(tx, ask)
		if err != nil {
			return err
		}
		for _, client := range ask {
			l.known[client] = stored[client]
		}
	}
	for _, a := range batch {
		have := l.known[a.ClientID]
		if a.mayWait() && have.Quiet >= a.QuietLimit {
			if err := refuse(tx, batch, a, notify.ErrQuietFull); err != nil {
				return err
			}
		}
		if !a.mayBePostponed() {
			continue
		}
		if full := have.Full(a.Channels, a.PostponedLimit); len(full) > 0 {
			if err := refuse(tx, batch, a, &notify.PostponedError{By: full}); err != nil {
				return err
			}
		}
	}
	return nil
}

// mayWait reports whether messages of a send may wait for the end of quiet hours, beyond those that count as delayed.
func (a *acceptance) mayWait() bool {
	return a.err == nil && !a.replayed && a.QuietLimit > 0 && a.Held()
}

// mayBePostponed reports whether messages of a send may wait for another attempt. Critical ones may, too.
func (a *acceptance) mayBePostponed() bool {
	return a.err == nil && !a.replayed && a.PostponedLimit > 0
}
