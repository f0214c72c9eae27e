package delivery

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/notify"
)

// Options are what New needs. Those with a default may be left out.
type Options struct {
	Store        notify.Store
	Directory    notify.Directory
	Channel      notify.Channel
	IDs          *notify.IDs
	Unsubscriber *notify.Unsubscriber
	// From and Domain are what templates show; From is also the sender's address.
	From, Domain string
	// BaseURL is where recipients reach the service. Without it mail has no links
	// to unsubscribe.
	BaseURL string
	// Dir is a folder of this server alone. It holds the journal, and the name
	// under which the server leases messages.
	Dir string
	// Workers is how many batches are delivered at once (default 4), Batch how
	// many messages each has (500), Chunk how many recipients are added to a send
	// at a time (2000).
	Workers, Batch, Chunk int
	Schedule              Schedule
	// Patience is how long the delivery of a batch may take (10 min).
	Patience time.Duration
	// Lease is how long other servers wait for a server that went away (2 min).
	Lease time.Duration
	// Retention is how long messages are kept after their end (7 days).
	Retention time.Duration
	// Poll is how often to look for what nobody told about: by default 1 s when
	// the store is shared and 15 s otherwise.
	Poll time.Duration
	// Webhooks bounds whom the service calls.
	Webhooks WebhookOptions
	// Extended is told how many recipients were added to a send of a client.
	Extended func(client string, recipients int)
	Log      *slog.Logger
	Now      func() time.Time
	Metrics  *Metrics
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
		o.Now = time.Now
	}
	return o
}

// Delivery is the running delivery. It is a background.Service.
type Delivery struct {
	background.Part
	o        Options
	contents *contents
	calls    *caller

	owner  string
	finish *finisher
	// The parts that are woken.
	claims, expansions signal
	flight             *flight
	// lookups counts how often in a row addresses could not be looked up.
	lookups failures
}

// New returns a Delivery that does nothing before Start.
func New(o Options) *Delivery {
	o = o.withDefaults()
	d := &Delivery{
		o:          o,
		contents:   newContents(o),
		claims:     newSignal(),
		expansions: newSignal(),
		flight:     newFlight(o.Workers*o.Batch, o.Metrics),
	}
	d.calls = newCaller(o)
	return d
}

// Kick tells that there is something to do.
func (d *Delivery) Kick() {
	d.expansions.poke()
	d.claims.poke()
}

// goodbye is how long a stop may take to record what was delivered.
const goodbye = 10 * time.Second

// Start records what an earlier process delivered, and begins.
func (d *Delivery) Start(ctx context.Context) error {
	return d.Launch(ctx, func(work context.Context, spawn func(func())) error {
		journal, err := d.recover(ctx)
		if err != nil {
			return err
		}
		d.finish = newFinisher(d.o.Store, journal, d.o.Log, d.o.Metrics)
		d.finish.tell, d.finish.finished = d.calls.callbacks, d.finished
		spawn(func() { d.run(work) })
		return nil
	})
}

// Stop ends the deliveries under way, records them, and gives back the rest.
func (d *Delivery) Stop() { d.Halt(nil) }

// recover does what has to be done before anything is claimed.
func (d *Delivery) recover(ctx context.Context) (_ *journal, err error) {
	if err := os.MkdirAll(d.o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the delivery: %w", err)
	}
	if d.owner, err = ownerOf(d.o.Dir); err != nil {
		return nil, err
	}
	journal, numbers, err := openJournal(d.o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, journal.close())
		}
	}()
	if err := d.replay(ctx, numbers); err != nil {
		return nil, fmt.Errorf("record what was delivered before the last stop: %w", err)
	}
	for i := range journal.files {
		if err := journal.forget(i); err != nil {
			return nil, fmt.Errorf("empty the journal of deliveries: %w", err)
		}
	}
	if err := d.o.Store.Release(ctx, d.owner); err != nil {
		return nil, fmt.Errorf("take back the messages of the last run: %w", err)
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

// ownerOf reads the name of this server, and makes it at the first start. It has
// to stay the same, so that a server that comes back need not wait for the end
// of its own leases.
func ownerOf(dir string) (string, error) {
	path := filepath.Join(dir, "owner")
	text, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(text))) >= 16 {
		return strings.TrimSpace(string(text)), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the name of this server: %w", err)
	}
	name := strings.ToLower(rand.Text())
	// Written aside and renamed, so that it is never found half written.
	if err := os.WriteFile(path+".new", []byte(name+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the name of this server: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("write the name of this server: %w", err)
	}
	return name, nil
}

// run is the whole life between Start and Stop.
func (d *Delivery) run(ctx context.Context) {
	var parts, finishing background.WaitGroup
	parts.Loop(ctx, "delivery", func() { d.dispatch(ctx) })
	parts.Loop(ctx, "delivery expansion", func() { d.expand(ctx) })
	parts.Loop(ctx, "webhook calls", func() { d.calls.run(ctx, d.owner) })
	parts.Loop(ctx, "delivery leases", func() { d.renew(ctx) })
	parts.Loop(ctx, "delivery upkeep", func() { d.upkeep(ctx) })

	lasting := context.WithoutCancel(ctx)
	commits, endCommits := context.WithCancel(lasting)
	last, endLast := context.WithCancel(lasting)
	finishing.Loop(last, "delivery outcomes", func() { d.finish.run(commits, last) })

	<-ctx.Done()
	// A database that does not answer must not keep the process from ending:
	// what was delivered is in the journal.
	defer background.AfterFunc("delivery stop", goodbye, endCommits).Stop()
	impatient := background.AfterFunc("delivery stop", 2*goodbye, endLast)
	parts.Wait()
	endCommits()
	finishing.Wait()
	release, endRelease := context.WithTimeout(lasting, goodbye)
	if err := d.o.Store.Release(release, d.owner); err != nil {
		d.o.Log.Warn("messages under way could not be given back; they are taken up at the next start", "error", err)
	}
	endRelease()
	impatient.Stop()
	endLast()
	if err := d.finish.journal.close(); err != nil {
		d.o.Log.Error("the journal of deliveries could not be closed", "error", err)
	}
}

// renew keeps what this server holds from being given to another.
func (d *Delivery) renew(ctx context.Context) {
	for wait(ctx, d.o.Lease/3) {
		if err := d.o.Store.Renew(ctx, d.owner, d.o.Lease); err != nil && ctx.Err() == nil {
			d.o.Log.Error("leases of messages cannot be renewed", "error", err)
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
		if time.Since(purged) >= purge {
			purged = time.Now()
			d.Purge(ctx)
		}
		if !wait(ctx, measure) {
			return
		}
	}
}

// Purge deletes what ended long ago. It runs by itself every hour.
func (d *Delivery) Purge(ctx context.Context) {
	n, err := d.o.Store.Purge(ctx, d.o.Now().Add(-d.o.Retention))
	switch {
	case err != nil && ctx.Err() == nil:
		d.o.Log.Error("old messages cannot be purged", "error", err)
	case n > 0:
		d.o.Log.Info("old messages were purged", "messages", n)
	}
}

// finished follows a commit.
func (d *Delivery) finished(again bool) {
	if again {
		d.claims.poke() // something is due earlier, perhaps
	}
	if d.calls.made.Swap(false) {
		d.calls.wake.poke()
	}
}
