package figures

import (
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

// Keeper knows the ids of series. Its zero value with Now is ready for use.
type Keeper struct {
	Now func() time.Time

	mu      sync.Mutex
	clients map[string]*client
	cached  int // series of all clients
}

const (
	// clientFor is how long the series of a client are cached; retired ones are kept much longer.
	clientFor   = time.Hour
	retiredFor  = 24 * time.Hour
	cacheSeries = 50_000
)

// client has the series of one client. It does not change when it is in the cache.
type client struct {
	read    time.Time
	ids     map[notify.FigureSeries]int64
	domains map[string]bool
}

// folded returns the series under which one is counted that is not known: the first of those that are, or that may
// be created.
func (c *client) folded(s notify.FigureSeries) notify.FigureSeries {
	if s.Domain != "" && !c.domains[s.Domain] && len(c.domains) >= notify.MaxFigureDomains {
		s.Domain = notify.OtherFigures
	}
	if c.ids[s] != 0 || len(c.ids) < notify.MaxFigureSeries {
		return s
	}
	const other = notify.OtherFigures
	s.TemplateID, s.TemplateVersion, s.Domain = other, 0, other
	// Each kind may still have one series for each channel, up to a limit.
	if c.ids[s] != 0 || len(c.ids) < 2*notify.MaxFigureSeries {
		return s
	}
	s.KindID = other
	return s
}

// cachedClient returns the series of a client, nil if they have to be read.
func (k *Keeper) cachedClient(id string) *client {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.clients[id]
	if c == nil || k.Now().Sub(c.read).Abs() > clientFor {
		return nil
	}
	return c
}

// Committed remembers what a transaction read and created.
func (k *Keeper) Committed(c *Changes) {
	if len(c.loaded) == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, now := range c.loaded {
		if before := k.clients[id]; before != nil {
			k.cached -= len(before.ids)
		}
		if k.clients == nil || k.cached+len(now.ids) > cacheSeries {
			k.clients, k.cached = map[string]*client{}, 0
		}
		k.clients[id] = now
		k.cached += len(now.ids)
	}
}

// series returns the id under which a series is counted, and creates it if it is missing.
func (k *Keeper) series(tx *db.Tx, c *Changes, s notify.FigureSeries) (int64, error) {
	of := c.loaded[s.ClientID]
	if of == nil {
		if of = k.cachedClient(s.ClientID); of != nil {
			if id := of.ids[of.folded(s)]; id != 0 {
				return id, nil
			}
		}
		var err error
		if of, err = k.load(tx, s.ClientID); err != nil {
			return 0, err
		}
		c.loaded[s.ClientID] = of
	}
	s = of.folded(s)
	if id := of.ids[s]; id != 0 {
		return id, nil
	}
	id, err := k.create(tx, s)
	if err == nil {
		of.know(s, id)
	}
	return id, err
}

func (c *client) know(s notify.FigureSeries, id int64) {
	c.ids[s] = id
	if s.Domain != "" && !strings.HasPrefix(s.Domain, notify.OtherFigures) {
		c.domains[s.Domain] = true
	}
}

// load reads the series of a client.
func (k *Keeper) load(tx *db.Tx, id string) (*client, error) {
	c := &client{read: k.Now(), ids: map[notify.FigureSeries]int64{}, domains: map[string]bool{}}
	_, err := db.All(tx, func(row db.Scanner) (n int64, err error) {
		s := notify.FigureSeries{ClientID: id}
		if err = row.Scan(&n, &s.KindID, &s.Channel, &s.TemplateID, &s.TemplateVersion, &s.Domain); err == nil {
			c.know(s, n)
		}
		return n, err
	}, "SELECT id, kind_id, channel, template_id, version, domain FROM notify_series WHERE client_id = ? AND "+
		"retired = 0", id)
	return c, err
}

// create stores a series, or finds the one that another server has just stored.
func (k *Keeper) create(tx *db.Tx, s notify.FigureSeries) (id int64, err error) {
	err = tx.QueryRow(`INSERT INTO notify_series (id, client_id, kind_id, channel, template_id, version, domain, created)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client_id, kind_id, channel, template_id, version, domain)
		DO UPDATE SET retired = 0 RETURNING id`, rand.Int64N(1<<62)+1, s.ClientID, s.KindID, int(s.Channel), s.TemplateID,
		s.TemplateVersion, s.Domain, db.Nanos(k.Now())).Scan(&id)
	return id, err
}

// EraseDomain makes the figures of a domain those of others, for one client or for all. The series keep their ids,
// which other servers may know, and get names that say nothing.
func (k *Keeper) EraseDomain(tx *db.Tx, client string, all bool, domain string) error {
	text, args := "UPDATE notify_series SET domain = ? || CAST(id AS TEXT) WHERE domain = ?",
		[]any{notify.OtherFigures, domain}
	if !all {
		text, args = text+" AND client_id = ?", append(args, client)
	}
	_, err := tx.Exec(text, args...)
	return err
}

// Counted reports whether a domain has figures, of one client or of all.
func Counted(tx *db.Tx, client string, all bool, domain string) (bool, error) {
	text, args := "SELECT id FROM notify_series WHERE domain = ?", []any{domain}
	if !all {
		text, args = text+" AND client_id = ?", append(args, client)
	}
	found, err := db.All(tx, query.ScanNumber, text+" LIMIT 1", args...)
	return len(found) > 0, err
}

// Forget makes the next transaction of this process read the series of a client again, or of all for "".
func (k *Keeper) Forget(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.clients, func(other string, c *client) bool {
		if id == "" || other == id {
			k.cached -= len(c.ids)
			return true
		}
		return false
	})
}
