package notifydb

import (
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

// waitLoad is what the leader of accepting knows about messages that wait for the end of quiet hours or because of
// pacing, by client, so that it need not read it for every group.
type waitLoad struct {
	known delayed
	read  time.Time
}

// admit refuses sends that may wait for the end of quiet hours or because of pacing, of clients of which too many do.
// Which messages wait is only known when they are delivered, so those that are on their way come on top.
func (l *waitLoad) admit(tx *db.Tx, batch []*acceptance) error {
	if time.Since(l.read) >= backlogFor {
		l.known, l.read = delayed{}, time.Now()
	}
	var ask []string
	for _, a := range batch {
		if !a.mayWait() && !a.mayBePaced() {
			continue
		}
		_, known := l.known[a.ClientID]
		if !known || a.mayWait() && a.QuietLimit < backlogLarge || a.mayBePaced() && a.PacedLimit < backlogLarge {
			ask = append(ask, a.ClientID)
		}
	}
	if len(ask) > 0 {
		stored, err := delayedOf(tx, ask)
		if err != nil {
			return err
		}
		for _, client := range ask {
			l.known[client] = stored[client]
		}
	}
	for _, a := range batch {
		var err error
		switch have := l.known[a.ClientID]; {
		case a.mayWait() && have.quiet >= a.QuietLimit:
			err = refuse(tx, batch, a, notify.ErrQuietFull)
		case a.mayBePaced() && have.paced >= a.PacedLimit:
			err = refuse(tx, batch, a, notify.ErrPacedFull)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// mayWait reports whether messages of a send may wait for the end of quiet hours, beyond those that count as delayed.
func (a *acceptance) mayWait() bool {
	return a.err == nil && !a.replayed && a.QuietLimit > 0 && a.Held()
}

// mayBePaced reports whether messages of a send may wait because of pacing. Critical ones may, too.
func (a *acceptance) mayBePaced() bool {
	return a.err == nil && !a.replayed && a.PacedLimit > 0 && a.Channels.Has(notify.Email)
}
