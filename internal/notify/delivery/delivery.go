package delivery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/clock"
	"ingot/internal/base/datadir"
	"ingot/internal/base/pattern"
	"ingot/internal/base/tracing"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/tracking"
)

// Options configure a Delivery.
type Options struct {
	Store     notify.Store
	Directory notify.Directory
	// Channel delivers mail, More what goes by other channels; messages of one that is
	// missing here wait.
	Channel      notify.Channel
	More         map[notify.ChannelID]notify.Channel
	IDs          *notify.IDs
	Unsubscriber *actions.Unsubscriber
	// Marker marks mail to recipients who allow that opens and clicks are counted; nil means that none is.
	Marker *tracking.Marker
	// From and Domain are shown by templates; From is also the sender's
	// address.
	From, Domain string
	// BaseURL is the public URL of the service. Without it, mail has no
	// unsubscribe links.
	BaseURL string
	// Dir is a directory used only by this server. It holds the journal, and
	// the name under which the server leases messages.
	Dir string
	// Workers is the number of batches of a channel delivered concurrently (default 4),
	// Batch the number of messages in each (500), Chunk the number of
	// recipients added to a send at a time (2000).
	Workers, Batch, Chunk int
	Schedule              Schedule
	// Patience is how long the delivery of a batch may take (10 min).
	Patience time.Duration
	// Lease is how long other servers wait before they take over the messages
	// of a server that disappeared (2 min).
	Lease time.Duration
	// Lead reports whether this server, of those that share the store, removes old
	// messages; nil means yes.
	Lead func(ctx context.Context) bool
	// Retention is how long messages are kept after they are final (7 days).
	Retention time.Duration
	// Poll is how often to check for work without being notified: by default
	// every second when the store is shared and every 15 s otherwise.
	Poll time.Duration
	// Webhooks limits the addresses that webhooks may have.
	Webhooks outbound.Options
	// Extended is called with the number of recipients added to a send of a
	// client.
	Extended func(client string, recipients int)
	Log      *slog.Logger
	Now      func() time.Time
	steady   func() time.Time // for due times, as in the store
	Metrics  *Metrics
	// Tracer records attempts as spans; nil does not.
	Tracer *tracing.Tracer
}

func (o Options) withDefaults() Options {
	if o.Patience <= 0 {
		o.Patience = deliverTime
	}
	set := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	last := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	set(&o.Workers, 4)
	set(&o.Batch, 500)
	set(&o.Chunk, 2000)
	last(&o.Lease, 2*time.Minute)
	last(&o.Retention, 7*24*time.Hour)
	poll := 15 * time.Second
	if o.Store.Shared() {
		poll = time.Second
	}
	last(&o.Poll, poll)
	o.Schedule = o.Schedule.withDefaults()
	o.BaseURL = strings.TrimSuffix(o.BaseURL, "/")
	if o.Extended == nil {
		o.Extended = func(string, int) {}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now, o.steady = time.Now, clock.Steady
	} else {
		o.steady = o.Now
	}
	return o
}

// Delivery is a background.Service that delivers messages.
type Delivery struct {
	background.Part
	o        Options
	contents *contents
	calls    *caller

	owner  string
	finish *finisher
	// lines are the channels, and expansions the other part that is woken.
	lines      []*line
	expansions signal
	// collected is woken when messages were collected in digests.
	collected signal
	// lookups counts consecutive failures of address lookups.
	lookups failures
}

// New returns a Delivery that does nothing before Start.
func New(o Options) *Delivery {
	o = o.withDefaults()
	d := &Delivery{
		o:          o,
		contents:   newContents(o),
		expansions: newSignal(),
		collected:  newSignal(),
	}
	d.lines = d.newLines()
	d.calls = newCaller(o)
	return d
}

// Kick signals that there is work to do.
func (d *Delivery) Kick() {
	d.expansions.send()
	d.wake()
}

// wake signals that there may be messages to claim.
func (d *Delivery) wake() {
	for _, l := range d.lines {
		l.claims.send()
	}
}

// stopTimeout is how long Stop may take to record delivered messages.
const stopTimeout = 10 * time.Second

// Start records the deliveries of an earlier process, and starts the work.
func (d *Delivery) Start(ctx context.Context) error {
	return d.Launch(ctx, func(work context.Context, spawn func(func())) error {
		journal, err := d.recover(ctx)
		if err != nil {
			return err
		}
		d.finish = newFinisher(d.o.Store, journal, d.o.Log, d.o.Metrics)
		d.finish.makeCallbacks, d.finish.finished = d.calls.callbacks, d.finished
		spawn(func() { d.run(work) })
		return nil
	})
}

// Stop stops the deliveries in progress, records them, and releases the
// remaining messages.
func (d *Delivery) Stop() { d.Halt(nil) }

// recover does the work that has to precede the first claim.
func (d *Delivery) recover(ctx context.Context) (_ *journal, err error) {
	if err := os.MkdirAll(d.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the delivery directory: %w", err)
	}
	if d.owner, err = ownerOf(d.o.Dir, d.o.Log); err != nil {
		return nil, err
	}
	journal, numbers, err := openJournal(d.o.Dir, d.o.Log)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, journal.close())
		}
	}()
	if err := d.replay(ctx, numbers); err != nil {
		return nil, fmt.Errorf("record the deliveries of the last run: %w", err)
	}
	for i := range journal.files {
		if err := journal.forget(i); err != nil {
			return nil, fmt.Errorf("empty the delivery journal: %w", err)
		}
	}
	if err := d.o.Store.Release(ctx, d.owner); err != nil {
		return nil, fmt.Errorf("release the messages of the last run: %w", err)
	}
	return journal, nil
}

func (d *Delivery) replay(ctx context.Context, numbers []int64) error {
	now := d.o.Now()
	for len(numbers) > 0 {
		part := numbers[:min(len(numbers), enough)]
		numbers = numbers[len(part):]
		outcomes := make([]notify.Outcome, len(part))
		for i, n := range part {
			outcomes[i] = notify.Outcome{Number: n, Status: notify.Delivered, Attempted: true, At: now}
		}
		if _, err := d.o.Store.Finish(ctx, outcomes, d.calls.callbacks); err != nil {
			return err
		}
	}
	return nil
}

// ownerOf reads the name of this server, and creates it at the first start. It
// must stay the same, so that a restarted server need not wait for its own
// leases to expire. One that is damaged is replaced.
func ownerOf(dir string, log *slog.Logger) (name string, err error) {
	path := filepath.Join(dir, "owner")
	known, err := datadir.ReadRebuilt(path, func(text []byte) error {
		if name = strings.TrimSpace(string(text)); !validOwner().MatchString(name) {
			return errors.New("it is not the name of a server")
		}
		return nil
	}, log)
	if err != nil {
		return "", fmt.Errorf("read the name of this server: %w", err)
	}
	if known {
		return name, nil
	}
	name = strings.ToLower(rand.Text())
	if err := datadir.WriteFile(path, []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the name of this server: %w", err)
	}
	return name, nil
}

// validOwner matches what ownerOf creates.
var validOwner = pattern.OnUse(`^[a-z0-9]{16,64}$`)

// run runs all parts between Start and Stop.
func (d *Delivery) run(ctx context.Context) {
	var parts, finishing background.WaitGroup
	for _, l := range d.lines {
		parts.Loop(ctx, "delivery", func() { d.dispatch(ctx, l) })
	}
	parts.Loop(ctx, "delivery expansion", func() { d.expand(ctx) })
	parts.Loop(ctx, "digests", func() { d.endDigests(ctx) })
	parts.Loop(ctx, "webhook calls", func() { d.calls.run(ctx, d.owner) })
	parts.Loop(ctx, "delivery leases", func() { d.renew(ctx) })
	parts.Loop(ctx, "delivery upkeep", func() { d.upkeep(ctx) })
	parts.Loop(ctx, "erasures", func() { d.eraseOften(ctx) })

	lasting := context.WithoutCancel(ctx)
	commits, endCommits := context.WithCancel(lasting)
	last, endLast := context.WithCancel(lasting)
	finishing.Loop(last, "delivery outcomes", func() { d.finish.run(commits, last) })

	<-ctx.Done()
	// A database that does not respond must not prevent the process from
	// stopping: the deliveries are in the journal.
	defer background.AfterFunc("delivery stop", stopTimeout, endCommits).Stop()
	forceStop := background.AfterFunc("delivery stop", 2*stopTimeout, endLast)
	parts.Wait()
	endCommits()
	finishing.Wait()
	release, endRelease := context.WithTimeout(lasting, stopTimeout)
	if err := d.o.Store.Release(release, d.owner); err != nil {
		d.o.Log.Warn("release messages failed; they are released at the next start", "error", err)
	}
	endRelease()
	forceStop.Stop()
	endLast()
	if err := d.finish.journal.close(); err != nil {
		d.o.Log.Error("close delivery journal failed", "error", err)
	}
}

// renew renews the leases of this server.
func (d *Delivery) renew(ctx context.Context) {
	for wait(ctx, d.o.Lease/3) {
		if err := d.o.Store.Renew(ctx, d.owner, d.o.Lease); err != nil && ctx.Err() == nil {
			d.o.Log.Error("renew leases failed", "error", err)
		}
	}
}

const (
	measure = 10 * time.Second
	purge   = time.Hour
)

// upkeep measures the queue and purges.
func (d *Delivery) upkeep(ctx context.Context) {
	var purged time.Time
	for {
		if n, err := d.o.Store.Waiting(ctx); err == nil {
			d.o.Metrics.queue(n)
		}
		if by, err := d.o.Store.Postponed(ctx); err == nil {
			d.o.Metrics.again(by)
		}
		if time.Since(purged) >= purge && (d.o.Lead == nil || d.o.Lead(ctx)) {
			purged = time.Now()
			d.Purge(ctx)
		}
		d.contents.files.tidy()
		if !wait(ctx, measure) {
			return
		}
	}
}

// Purge deletes messages that became final long ago. It is called every hour.
func (d *Delivery) Purge(ctx context.Context) {
	n, err := d.o.Store.Purge(ctx, d.o.Now().Add(-d.o.Retention))
	switch {
	case err != nil && ctx.Err() == nil:
		d.o.Log.Error("purge failed", "error", err)
	case n > 0:
		d.o.Log.Info("old messages purged", "messages", n)
	}
}

// finished is called after each commit.
func (d *Delivery) finished(again, collected bool) {
	if collected {
		d.collected.send()
	}
	if again {
		d.wake() // a message may be due earlier
	}
	if d.calls.made.Swap(false) {
		d.calls.wake.send()
	}
}
