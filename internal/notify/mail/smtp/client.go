package smtp

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// batchPerConnection is how many messages justify another connection.
const batchPerConnection = 4

// Client sends batches of messages to one server over a pool of connections. It
// is a background.Service; Stop cancels deliveries and closes connections.
type Client struct {
	background.Part
	config  Config
	log     *slog.Logger
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	domains *domains
	slots   chan struct{}         // one for each connection in use
	failure atomic.Pointer[error] // the last failure, for the log

	mu         sync.Mutex
	work       context.Context //nolint:containedctx // the time between Start and Stop
	stopping   bool
	idle       []*conn // most recently used last
	deliveries sync.WaitGroup
}

// New returns a client. It connects when the first message is sent.
func New(config Config, log *slog.Logger) *Client {
	c := &Client{config: config, log: log, domains: newDomains(config.DomainConnections),
		slots: make(chan struct{}, config.Connections)}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
		Name: config.String(), MaxRequests: 1, Timeout: config.Pause,
		ReadyToTrip: func(n gobreaker.Counts) bool { return int(n.ConsecutiveFailures) >= config.Failures },
		IsExcluded:  func(err error) bool { return errors.Is(err, context.Canceled) },
		OnStateChange: func(name string, _, to gobreaker.State) {
			if to == gobreaker.StateOpen {
				log.Warn("mail server is down, mail is postponed", "server", name, "pause", config.Pause, "error",
					*c.failure.Load())
			} else if to == gobreaker.StateClosed {
				log.Info("mail server is back", "server", name)
			}
		},
	})
	return c
}

// Encrypted connects to the mail server and reports whether the connection is encrypted.
func (c *Client) Encrypted(ctx context.Context) (bool, error) {
	to, err := dial(ctx, &c.config)
	if err != nil {
		return false, err
	}
	to.quit()
	return to.encrypted, nil
}

// Host returns the mail server, without port.
func (c *Client) Host() string { return c.config.Host }

// Start starts the connection pool.
func (c *Client) Start(ctx context.Context) error {
	return c.Launch(ctx, func(work context.Context, spawn func(func())) error {
		c.mu.Lock()
		c.work = work
		c.mu.Unlock()
		spawn(func() { c.sweep(work) })
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
func (c *Client) Deliver(ctx context.Context, source Source, done func(int, notify.Result)) {
	q := newQueue(source, c.domains, done)
	work, ok := c.enter()
	if !ok {
		q.rest(temporary("mail is not being sent: the service is stopping"))
		return
	}
	defer c.deliveries.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer background.OnDone(work, "mail stop", cancel)()

	var (
		workers background.WaitGroup
		mu      sync.Mutex
		why     notify.Result
	)
	for range min(c.config.Connections, (source.Len()+batchPerConnection-1)/batchPerConnection) {
		workers.Go("mail connection", func() {
			r, failed := temporary("sending ended unexpectedly"), true
			background.Safely("mail connection", func() { r, failed = c.worker(ctx, q) })
			if failed {
				mu.Lock()
				defer mu.Unlock()
				why = r
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil || why.Verdict == 0 {
		why = temporary("no time left to send the message")
	}
	q.rest(why)
}

// worker sends over one connection after the other until the queue is empty. It
// gives up with a reason when it cannot get a connection; other workers
// continue.
func (c *Client) worker(ctx context.Context, q *queue) (notify.Result, bool) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	case <-ctx.Done():
		return notify.Result{}, false
	}
	for {
		first, ok := q.take(ctx)
		if !ok {
			return notify.Result{}, false
		}
		conn, err := c.get(ctx)
		if err != nil {
			q.putBack(first)
			// Workers that found the queue empty meanwhile have left their connections. One that has not will find
			// the message.
			if c.pooled() && ctx.Err() == nil {
				continue
			}
			r := temporary("%v", err)
			if errors.Is(err, errDown) {
				r.RetryAfter = c.config.Pause
			}
			return r, true
		}
		stop := background.OnDone(ctx, "mail connection", func() { conn.leave(c.config.Grace) })
		err = conn.transfer(ctx, q, first)
		if !stop() {
			err = context.Canceled // the deadline may expire at any time
		}
		c.put(conn, err)
	}
}

// pooled reports whether a connection is open and unused.
func (c *Client) pooled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.idle) > 0
}

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
	settle, err := c.breaker.Allow()
	if err != nil {
		return nil, errDown
	}
	conn, err := dial(ctx, &c.config)
	if err != nil {
		if ctx.Err() != nil {
			err = errors.Join(context.Canceled, err)
		}
		c.failure.Store(&err)
		settle(err)
		return nil, err
	}
	// A server that greets and then hangs is down as well: the breaker records
	// the connection when its first message has a reply.
	conn.settled = settle
	return conn, nil
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
	if err != nil {
		c.failure.Store(&err)
	}
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
