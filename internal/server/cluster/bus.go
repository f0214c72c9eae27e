package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

const (
	channel = "ingot"
	// gather is the shortest time between two messages of a server.
	gather = 10 * time.Millisecond
	// payloadMost is less than the 8,000 bytes that PostgreSQL allows.
	payloadMost = 7000
	// sendFor limits the time of one message.
	sendFor = 5 * time.Second
	// probeFor is how long a server waits for its own message.
	probeFor = 3 * time.Second
	// quietFor is how long the connection may be quiet before it is probed.
	quietFor = 20 * time.Second
	// pollEvery is how often everything is looked at without LISTEN, and
	// retryListen how often LISTEN is tried again then.
	pollEvery   = 2 * time.Second
	retryListen = time.Minute
)

// The items of the cluster itself. No other begins with an exclamation mark.
const (
	itemAll   = "!all"   // messages were lost
	itemLook  = "!look"  // servers or leases have changed
	itemProbe = "!probe" // nothing
	itemAck   = "!ack "  // SERVER NUMBER…: the answer to questions of a server
)

// bus sends and receives messages. A message is one notification: a line with the
// id of its sender and the numbers of the questions for whose answers it waits, and
// one line for each item.
type bus struct {
	c *Cluster

	mu     sync.Mutex
	queue  []outgoing
	number uint64
	asked  map[uint64]*question // by number of the message
	missed bool                 // a message could not be sent
	warned bool                 // that nothing can be received
	conn   *db.Listener         // nil while nothing can be received
	more   chan struct{}        // capacity 1
	heard  map[string]subscriber
}

// subscriber gets the notifications of a channel.
type subscriber struct {
	received  func(payload string)
	connected func(now bool)
}

// Subscribe passes on the notifications of one of Options.Channels, and whether they are
// received at all: after connected(true) some may have been missed. An exclusive server
// receives none.
func (c *Cluster) Subscribe(channel string, received func(payload string), connected func(now bool)) {
	c.bus.mu.Lock()
	defer c.bus.mu.Unlock()
	c.bus.heard[channel] = subscriber{received, connected}
	connected(c.bus.conn != nil)
}

// tellConnected tells subscribers whether notifications are received.
func (b *bus) tellConnected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.heard {
		s.connected(b.conn != nil)
	}
}

// outgoing are items to be sent. question is nil if the sender
// does not wait.
type outgoing struct {
	items    []string
	question *question
}

// question waits for the answers of servers.
type question struct {
	missing map[string]bool // by server
	done    chan struct{}   // closed when none is missing, or the message was not sent
}

func (b *bus) init(c *Cluster) {
	b.c, b.asked, b.more = c, map[uint64]*question{}, make(chan struct{}, 1)
	b.heard = map[string]subscriber{}
}

// Alone reports whether no other server can use the database beside this one.
func (c *Cluster) Alone() bool { return c.single || c.Exclusive }

// Tell sends items to the other servers. It never blocks. An item is a line of at
// most 1,000 bytes that does not begin with an exclamation mark.
func (c *Cluster) Tell(items ...string) {
	if len(items) == 0 || c.Alone() {
		return
	}
	c.bus.add(outgoing{items: items})
}

// Ask is like Tell, and returns a function that waits until the items have taken
// effect on every other living server that receives messages. That function returns
// false if its context ends before, or if the message could not be sent.
func (c *Cluster) Ask(items ...string) (await func(context.Context) bool) {
	if len(items) == 0 || c.Alone() {
		return answered
	}
	q := &question{missing: map[string]bool{}, done: make(chan struct{})}
	c.mu.Lock()
	for _, other := range c.seen.others {
		if other.Listens {
			q.missing[other.ID] = true
		}
	}
	c.mu.Unlock()
	if len(q.missing) == 0 {
		c.Tell(items...) // a server may have joined a moment ago
		return answered
	}
	c.bus.add(outgoing{items, q})
	return func(ctx context.Context) bool {
		select {
		case <-q.done:
			return len(q.missing) == 0
		case <-ctx.Done():
			c.bus.forget(q)
			return false
		}
	}
}

// answered waits for no server.
func answered(context.Context) bool { return true }

func (b *bus) add(o outgoing) {
	b.mu.Lock()
	b.queue = append(b.queue, o)
	b.mu.Unlock()
	background.Kick(b.more)
}

func (b *bus) forget(q *question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for number, other := range b.asked {
		if other == q {
			delete(b.asked, number)
		}
	}
}

// send sends what is queued until ctx is done.
func (b *bus) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.more:
		}
		pause := gather
		if !b.flush(ctx) {
			pause = pollEvery
			background.Kick(b.more)
		}
		if !background.Sleep(ctx, pause) {
			return
		}
	}
}

// flush sends what is queued, in as few messages as possible. If that fails, the
// next flush says that messages were lost.
func (b *bus) flush(ctx context.Context) (ok bool) {
	b.mu.Lock()
	queue, missed := b.queue, b.missed
	b.queue = nil
	b.mu.Unlock()
	if missed {
		queue = append([]outgoing{{items: []string{itemAll}}}, queue...)
	}
	var failed error
	for len(queue) > 0 {
		var m message
		for len(queue) > 0 && m.add(queue[0]) {
			queue = queue[1:]
		}
		if err := b.sendOne(ctx, m); err != nil {
			failed = err
		}
	}
	b.mu.Lock()
	b.missed = failed != nil
	b.mu.Unlock()
	if failed != nil && !missed && ctx.Err() == nil {
		b.c.Log.Warn("telling the other servers what changed failed; they will look at everything", "error", failed)
	}
	return failed == nil
}

// message is one notification.
type message struct {
	items     map[string]bool
	questions []*question
	size      int
}

// numberMost is the longest number of a question, with a space.
const numberMost = 21

// add reports whether there was room for o.
func (m *message) add(o outgoing) bool {
	size := numberMost
	for _, item := range o.items {
		size += len(item) + 1
	}
	if size > payloadMost { // too much to name
		o.items, size = []string{itemAll}, numberMost+len(itemAll)+1
	}
	if m.size+size > payloadMost {
		return false
	}
	if m.items == nil {
		m.items = map[string]bool{}
	}
	for _, item := range o.items {
		m.items[item] = true
	}
	if o.question != nil {
		m.questions = append(m.questions, o.question)
	}
	m.size += size
	return true
}

// sendOne sends a message. The questions of a message that was not sent are over.
func (b *bus) sendOne(ctx context.Context, m message) error {
	head := b.c.self.ID
	first := uint64(0)
	b.mu.Lock()
	for i, q := range m.questions {
		b.number++
		if i == 0 {
			first = b.number
		}
		b.asked[b.number] = q
		head += " " + strconv.FormatUint(b.number, 10)
	}
	b.mu.Unlock()
	limited, cancel := context.WithTimeout(ctx, sendFor)
	defer cancel()
	err := b.c.DB.Notify(limited, channel,
		strings.Join(append([]string{head}, slices.Sorted(maps.Keys(m.items))...), "\n"))
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i := range m.questions {
			if q := b.asked[first+uint64(i)]; q != nil { // not answered, if it was sent after all
				close(q.done)
				delete(b.asked, first+uint64(i))
			}
		}
	}
	return err
}

// now sends one item, after the bus was closed.
func (b *bus) now(ctx context.Context, item string) error {
	return b.c.DB.Notify(ctx, channel, b.c.self.ID+"\n"+item)
}

// listens reports whether messages are received.
func (b *bus) listens() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.conn != nil
}

func (b *bus) close() {
	b.mu.Lock()
	conn := b.conn
	b.conn = nil
	b.mu.Unlock()
	if conn != nil {
		b.tellConnected()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		conn.Close(ctx)
	}
}

// connect listens, and checks that messages arrive: behind a pooler LISTEN may
// succeed without effect. It returns when to try again after a failure.
func (b *bus) connect(ctx context.Context) (again time.Duration) {
	again = pollEvery
	limited, cancel := context.WithTimeout(ctx, sendFor)
	defer cancel()
	conn, err := b.c.DB.Listen(limited, b.c.ListenURL, append([]string{channel}, b.c.Channels...)...)
	if err == nil {
		if err = b.probe(ctx, conn); err != nil {
			conn.Close(limited)
			conn, again = nil, retryListen
		}
	}
	b.mu.Lock()
	b.conn = conn
	warn := err != nil && !b.warned && ctx.Err() == nil
	b.warned = err != nil
	b.mu.Unlock()
	if conn != nil {
		b.tellConnected()
	}
	if warn {
		b.c.Log.Warn("messages of other servers cannot be received, so everything is read every two seconds; if the "+
			"database is behind a pooler, set --database-listen-url to its own address", "error", err)
	}
	return again
}

// probe sends a message and waits for any, its own at the latest.
func (b *bus) probe(ctx context.Context, conn *db.Listener) error {
	limited, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	if err := b.now(limited, itemProbe); err != nil {
		return err
	}
	from, payload, err := conn.Next(limited)
	if err != nil {
		return fmt.Errorf("no message arrived: %w", err)
	}
	b.pass(from, payload)
	return nil
}

// receive delivers messages until ctx is done. After a gap everything may have
// changed.
func (b *bus) receive(ctx context.Context) {
	defer b.close()
	var next time.Time // when to try LISTEN again
	for ctx.Err() == nil {
		b.mu.Lock()
		conn := b.conn
		b.mu.Unlock()
		if conn != nil {
			if err := b.read(ctx, conn); ctx.Err() == nil {
				b.c.Log.Warn("the connection for messages of other servers was lost", "error", err)
				b.close()
			}
			continue
		}
		if !time.Now().Before(next) {
			next = time.Now().Add(b.connect(ctx))
		}
		b.c.resync() // its beat writes to the row whether this server listens
		if b.listens() {
			continue
		}
		background.Sleep(ctx, pollEvery)
	}
}

// read delivers messages until the connection fails.
func (b *bus) read(ctx context.Context, conn *db.Listener) error {
	for {
		limited, cancel := context.WithTimeout(ctx, quietFor)
		from, payload, err := conn.Next(limited)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			if err = b.probe(ctx, conn); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		b.pass(from, payload)
	}
}

// pass delivers a notification.
func (b *bus) pass(from, payload string) {
	if from == channel {
		b.deliver(payload)
		return
	}
	b.mu.Lock()
	s := b.heard[from]
	b.mu.Unlock()
	if s.received != nil {
		background.Safely("notification", func() { s.received(payload) })
	}
}

// resync tells the handler that everything may have changed.
func (c *Cluster) resync() {
	c.mu.Lock()
	c.next.resync = true
	c.mu.Unlock()
	background.Kick(c.beats)
	background.Kick(c.wakes)
}

// deliver passes a message to the handler.
func (b *bus) deliver(payload string) {
	lines := strings.Split(payload, "\n")
	head := strings.Fields(lines[0])
	if len(head) == 0 || head[0] == b.c.self.ID {
		return
	}
	items := slices.DeleteFunc(lines[1:], func(item string) bool {
		if !strings.HasPrefix(item, "!") {
			return item == ""
		}
		switch {
		case item == itemAll:
			b.c.resync()
		case item == itemLook:
			background.Kick(b.c.beats)
		case strings.HasPrefix(item, itemAck):
			b.answered(head[0], strings.Fields(item)[1:])
		}
		return true
	})
	done := func() {
		if len(head) > 1 {
			b.c.Tell(itemAck + strings.Join(head, " "))
		}
	}
	b.c.mu.Lock()
	received := b.c.work.Received
	b.c.mu.Unlock()
	if len(items) == 0 || received == nil {
		done()
		return
	}
	background.Safely("message of another server", func() { received(items, done) })
}

// answered handles the answer of a server: the name of the server that asked, and
// the numbers of its questions.
func (b *bus) answered(from string, answer []string) {
	if len(answer) == 0 || answer[0] != b.c.self.ID {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, text := range answer[1:] {
		number, _ := strconv.ParseUint(text, 10, 64)
		q := b.asked[number]
		if q == nil {
			continue
		}
		if delete(q.missing, from); len(q.missing) == 0 {
			close(q.done)
			delete(b.asked, number)
		}
	}
}
