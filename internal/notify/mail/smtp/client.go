package smtp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify/failover"
)

// batchPerConnection is how many messages justify another connection.
const batchPerConnection = 4

// Client sends batches of messages to one server over a pool of connections. It
// is a background.Service; Stop cancels deliveries and closes connections.
type Client struct {
	background.Part
	config  Config
	log     *slog.Logger
	breaker *failover.Breaker
	slots   Slots // one for each connection in use

	mu         sync.Mutex
	watched    map[*conn]func() // connections in use, with what adds a worker to their delivery
	work       context.Context  //nolint:containedctx // the time between Start and Stop
	stopping   bool
	idle       []*conn // most recently used last
	deliveries sync.WaitGroup
}

// New returns a client. It connects when the first message is sent.
func New(config Config, log *slog.Logger) *Client {
	c := &Client{config: config, log: log, slots: config.Slots, watched: map[*conn]func(){},
		breaker: failover.NewBreaker(failover.Options{Failures: config.Failures, First: config.Pause,
			Longest: config.Pause})}
	if c.slots == nil {
		c.slots = NewSlots(config.Connections)
	}
	return c
}

// Health returns what the client knows of the mail server.
func (c *Client) Health() failover.Health { return c.breaker.Health(time.Now()) }

// Slots is a number of connections that clients may share.
type Slots chan struct{}

// NewSlots returns n of them.
func NewSlots(n int) Slots { return make(Slots, n) }

// Host returns the mail server, without port.
func (c *Client) Host() string { return c.config.Host }

// Start starts the connection pool.
func (c *Client) Start(ctx context.Context) error {
	return c.Launch(ctx, func(work context.Context, spawn func(func())) error {
		c.mu.Lock()
		c.work = work
		c.mu.Unlock()
		spawn(func() { c.sweep(work) })
		if c.config.Late > 0 {
			spawn(func() { c.lend(work) })
		}
		return nil
	})
}

// Stop cancels deliveries in progress, waits for them, and closes all
// connections.
func (c *Client) Stop() {
	c.Halt(func() {
		c.mu.Lock()
		c.stopping = true
		c.mu.Unlock()
		c.deliveries.Wait()
		c.mu.Lock()
		idle := c.idle
		c.idle = nil
		c.mu.Unlock()
		var all background.WaitGroup
		for _, conn := range idle {
			all.Go("mail connection", conn.quit)
		}
		all.Wait()
	})
}

// sweep closes connections that were idle for too long.
func (c *Client) sweep(work context.Context) {
	tick := time.NewTicker(max(c.config.Idle/2, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-work.Done():
			return
		case now := <-tick.C:
			for _, old := range c.expired(now) {
				old.quit()
			}
		}
	}
}

func (c *Client) expired(now time.Time) []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.idle) && now.Sub(c.idle[n].used) >= c.config.Idle {
		n++
	}
	old := c.idle[:n:n]
	c.idle = append([]*conn(nil), c.idle[n:]...)
	return old
}

// enter registers a delivery; it returns false when the client is not running.
func (c *Client) enter() (context.Context, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.work == nil || c.stopping {
		return nil, false
	}
	c.deliveries.Add(1)
	return c.work, true
}

// Deliver sends a batch according to the contract of notify.Channel.
func (c *Client) Deliver(ctx context.Context, source Source, done func(int, Result)) {
	q := newQueue(source, c.config.Gate, done)
	work, ok := c.enter()
	if !ok {
		q.rest(Result{Result: temporary("mail is not being sent: the service is stopping")})
		return
	}
	defer c.deliveries.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer background.OnDone(work, "mail stop", cancel)()

	var (
		workers background.WaitGroup
		mu      sync.Mutex
		why     Result
		add     func()
	)
	add = func() {
		workers.Go("mail connection", func() {
			r, failed := unsent("sending ended unexpectedly"), true
			background.Safely("mail connection", func() { r, failed = c.worker(ctx, q, add) })
			if failed {
				mu.Lock()
				defer mu.Unlock()
				why = r
			}
		})
	}
	for range min(c.config.Connections, (source.Len()+batchPerConnection-1)/batchPerConnection) {
		add()
	}
	workers.Wait()
	if ctx.Err() != nil || why.Verdict == 0 {
		why = Result{Result: temporary("no time left to send the message")}
	}
	q.rest(why)
}

// worker sends over one connection after the other until the queue is empty. It
// gives up with a reason when it cannot get a connection; other workers
// continue. add adds a worker to the delivery.
func (c *Client) worker(ctx context.Context, q *queue, add func()) (Result, bool) {
	for {
		first, ok := q.take(ctx)
		if !ok {
			return Result{}, false
		}
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			q.putBack(first)
			return Result{}, false
		}
		if r, failed := c.use(ctx, q, first, add); failed {
			return r, true
		}
	}
}

// use sends messages over one connection, and gives the slot back.
func (c *Client) use(ctx context.Context, q *queue, first *item, add func()) (Result, bool) {
	slots := c.slots
	defer func() { <-slots }()
	conn, err := c.get(ctx)
	if err != nil {
		q.putBack(first)
		// Workers that found the queue empty meanwhile have left their connections. One that has not will find
		// the message.
		if c.pooled() && ctx.Err() == nil {
			return Result{}, false
		}
		r := unsent("%v", err)
		if errors.Is(err, errDown) {
			r.RetryAfter = c.config.Pause
		}
		return r, true
	}
	stop := background.OnDone(ctx, "mail connection", func() { conn.leave(c.config.Grace) })
	c.watch(conn, add)
	ended := errUnexpected
	defer func() {
		if c.unwatch(conn) {
			slots = c.config.Spare
		}
		c.put(conn, ended)
	}()
	ended = conn.transfer(ctx, q, first)
	if !stop() {
		ended = context.Canceled // the deadline may expire at any time
	}
	return Result{}, false
}

// pooled reports whether a connection is open and unused.
func (c *Client) pooled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle) > 0
}

var errUnexpected = errors.New("sending ended unexpectedly")

var errDown = errors.New("the mail server failed several times in a row; waiting before the next attempt")

// get returns a pooled connection or opens a new one.
func (c *Client) get(ctx context.Context) (*conn, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		warm := c.idle[n-1]
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		return warm, nil
	}
	c.mu.Unlock()
	call, refusal := c.breaker.Try(time.Now())
	if refusal != nil {
		return nil, errDown
	}
	settle := func(err error) { c.settle(call, err) }
	conn, err := dial(ctx, &c.config)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Canceled, err)
		}
		settle(err)
		return nil, err
	}
	// A server that greets and then hangs is down as well: the breaker records
	// the connection when its first message has a reply.
	conn.settled = settle
	return conn, nil
}

// settle reports how a connection began to the breaker.
func (c *Client) settle(call failover.Call, err error) {
	before := c.Health().State
	switch {
	case err == nil:
		call.Succeeded()
	case errors.Is(err, context.Canceled):
		call.Dropped()
	default:
		call.Failed(time.Now(), explain(err).Error())
	}
	switch after := c.Health().State; {
	case before != failover.Open && after == failover.Open:
		c.log.Warn("mail server is down, mail is postponed", "server", c.config.String(), "pause", c.config.Pause,
			"error", err)
	case before != failover.Closed && after == failover.Closed:
		c.log.Info("mail server is back", "server", c.config.String())
	}
}

// settle reports the result of the connection to the breaker, once.
func (c *conn) settle(err error) {
	if c.settled != nil {
		c.settled(err)
		c.settled = nil
	}
}

// put returns a connection to the pool if it can be reused.
func (c *Client) put(conn *conn, err error) {
	conn.settle(err)
	if err != nil {
		conn.close()
		return
	}
	c.mu.Lock()
	keep := conn.messages < c.config.Messages && !conn.outOfSync && !c.stopping
	if keep {
		conn.used = time.Now()
		c.idle = append(c.idle, conn)
	}
	c.mu.Unlock()
	if !keep {
		conn.quit()
	}
}
