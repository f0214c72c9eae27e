package smtp

import (
	"context"
	"time"
)

// wait records that answers to a message are waited for, and returns when that began.
func (c *conn) wait(domain string) time.Time {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since, c.domain, c.late = now, domain, false
	return now
}

// lent reports whether the slot of the connection was given to another one.
func (c *conn) lent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isLent
}

// ahead records what returns the next message to the queue while the answer to the present one is waited for.
func (c *conn) ahead(giveBack func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack = giveBack
}

// keeps ends that, and reports whether the next message still belongs to this connection.
func (c *conn) keeps() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := c.giveBack != nil
	c.giveBack = nil
	return kept
}

// watch watches a connection in use; add adds a worker to its delivery.
func (c *Client) watch(of *conn, add func()) {
	if c.config.Late <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watched[of] = add
}

// unwatch ends that, and reports whether the slot was lent: then the connection has one of Config.Spare.
func (c *Client) unwatch(of *conn) bool {
	c.mu.Lock()
	delete(c.watched, of)
	c.mu.Unlock()
	of.mu.Lock()
	defer of.mu.Unlock()
	lent := of.isLent
	of.since, of.isLent = time.Time{}, false
	return lent
}

// lend looks for connections that wait too long.
func (c *Client) lend(work context.Context) {
	tick := time.NewTicker(max(c.config.Late/4, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-work.Done():
			return
		case now := <-tick.C:
			c.mu.Lock()
			all := make(map[*conn]func(), len(c.watched))
			for of, add := range c.watched {
				all[of] = add
			}
			c.mu.Unlock()
			for of, add := range all {
				c.lendLate(of, add, now)
			}
		}
	}
}

// lendLate gives the slot of a connection that waits too long to another one. Its worker cannot end before it returns.
func (c *Client) lendLate(of *conn, add func(), now time.Time) {
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.since.IsZero() || of.isLent || now.Sub(of.since) < c.config.Late {
		return
	}
	if !of.late {
		of.late = true
		if c.config.Gate != nil {
			c.config.Gate.Late(of.domain)
		}
	}
	if of.giveBack != nil {
		of.giveBack()
		of.giveBack = nil
	}
	select {
	case c.config.Spare <- struct{}{}:
		of.isLent = true
		<-c.slots
		add()
	default:
	}
}
