package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/base/db"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations returns the tables of a cluster. Their rows describe running servers.
func Migrations() db.Migrations {
	sub, err := fs.Sub(files, "migrations")
	if err != nil {
		panic(err) // the folder is named wrongly
	}
	return db.Migrations{Name: "cluster", Files: sub}
}

// Options configure New.
type Options struct {
	DB *db.DB
	// ListenURL is the database without a pooler, for LISTEN; empty means the URL
	// of DB.
	ListenURL string
	// Channels are further channels to listen to on the same connection; see Subscribe.
	Channels []string
	// Exclusive means that no other server can run the apps of this one, because
	// they run on its machine.
	Exclusive bool
	// Directory identifies the data directory. A server that was killed and is
	// started again with the same one does not wait until its old row expires.
	Directory string
	// Version is the version of the program, for operators.
	Version string
	// Beat is how often the row is renewed, and Valid for how long; 3 s and 10 s if
	// zero.
	Beat, Valid time.Duration
	// Log is the operator's log; nil discards it.
	Log *slog.Logger
}

// Handler learns what this server owns and what others changed. Its functions may
// be nil.
type Handler struct {
	// Gained means that this server now works on the apps of shards.
	Gained func(Shards)
	// Lost means that it no longer does. It is called before shards are given to
	// others, and must return when nothing is written for them any more; or after
	// they were taken away, or while the database is out of reach: then Gained follows if
	// no other server has taken them.
	Lost func(Shards)
	// Received gets what another server told. done must be called once, when it has
	// taken effect here.
	Received func(items []string, done func())
	// Resync means that messages may have been lost: everything may have changed.
	Resync func()
}

// maxSkew is how far the clock of a server may differ from the database's.
const maxSkew = 5 * time.Second

// Cluster is the part that one server has in a cluster. It is a
// background.Service: Start joins, Stop leaves.
type Cluster struct {
	Options
	single bool // the database has no other users
	part   background.Part
	self   Server
	bus    bus

	beats   chan struct{} // asks for a beat now; capacity 1
	renewed chan struct{} // says that a beat succeeded; capacity 1
	wakes   chan struct{} // asks to balance; capacity 1

	moving  sync.Mutex // held while shards are taken or given, and while the handler is called
	mu      sync.Mutex
	work    Handler
	works   bool
	trust   time.Time // until when the leases are certainly held, on the monotonic clock
	patient time.Time // until when expired servers may come back
	refused error     // because another server took over
	skew    time.Duration
	seen    view
	held    map[string]int64 // tokens by the names of leases
	paused  Shards           // held, but not worked on: the database is out of reach
	next    moves
}

// moves are the changes that the handler does not know yet.
type moves struct {
	lost, gained Shards
	resync       bool
}

var _ background.Service = (*Cluster)(nil)

// New returns a cluster that was not joined.
func New(o Options) *Cluster {
	o.Beat = cmp.Or(o.Beat, 3*time.Second)
	o.Valid = cmp.Or(o.Valid, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	host, _ := os.Hostname() // for operators only
	c := &Cluster{
		Options: o, single: !o.DB.Shared(), held: map[string]int64{}, beats: make(chan struct{}, 1),
		renewed: make(chan struct{}, 1), wakes: make(chan struct{}, 1),
		self: Server{ID: rand.Text(), Directory: o.Directory, Host: host, PID: os.Getpid(), Version: o.Version,
			Exclusive: o.Exclusive, Started: time.Now()},
	}
	c.bus.init(c)
	return c
}

// Start joins the cluster. It fails with a *RefusedError if this server and one
// that is alive must not use the database at the same time.
func (c *Cluster) Start(ctx context.Context) error {
	if c.single {
		return nil
	}
	return c.part.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := c.DB.Migrate(ctx, Migrations()); err != nil {
			return err
		}
		if !c.Exclusive {
			c.bus.connect(ctx)
		}
		if err := c.join(ctx); err != nil {
			c.bus.close()
			return err
		}
		spawn(func() { c.heartbeats(work) })
		spawn(func() { c.balancing(work) })
		if c.Exclusive {
			return nil
		}
		spawn(func() { c.guarding(work) })
		spawn(func() { c.bus.send(work) })
		spawn(func() { c.bus.receive(work) })
		return nil
	})
}

// leaveFor limits the time for leaving the cluster in an orderly way.
const leaveFor = 3 * time.Second

// Stop leaves the cluster: its row is removed, and its leases are free.
func (c *Cluster) Stop() {
	c.part.Halt(func() {
		ctx, cancel := context.WithTimeout(context.Background(), leaveFor)
		defer cancel()
		if err := c.leave(ctx); err != nil {
			c.Log.Warn("leaving the cluster failed; others wait until this server has expired", "error", err)
		}
	})
}

// Working returns the part of a server that works on apps. Its Start begins to
// take shards, its Stop gives all of them back: earlier than the server stops, so
// that others take them while it finishes its requests.
func (c *Cluster) Working(h Handler) background.Service { return &working{c: c, handler: h} }

type working struct {
	background.Part
	c       *Cluster
	handler Handler
}

func (w *working) Start(ctx context.Context) error {
	return w.Launch(ctx, func(context.Context, func(func())) error {
		w.c.mu.Lock()
		w.c.work, w.c.works = w.handler, true
		w.c.mu.Unlock()
		background.Kick(w.c.beats)
		return nil
	})
}

func (w *working) Stop() {
	w.Halt(func() {
		c := w.c
		c.mu.Lock()
		c.works = false
		c.mu.Unlock()
		if c.single || c.Exclusive {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), leaveFor)
		defer cancel()
		if err := c.beat(ctx); err != nil { // it says that this server does not work
			c.Log.Warn("the shards of this server could not be announced as free", "error", err)
		}
		c.giveAll(ctx)
	})
}

// ErrNotHeld means that this server does not hold a lease, or not for certain.
var ErrNotHeld = errors.New("another server may hold the lease")

// Ready returns why this server should get no requests: its clock is wrong, or
// another server took over.
func (c *Cluster) Ready(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.skew.Abs() > maxSkew {
		return fmt.Errorf("the clock of this server differs by %v from the database's", c.skew.Round(time.Millisecond))
	}
	return c.refused
}

// Metrics returns the metrics of the cluster. A server alone has all shards.
func (c *Cluster) Metrics() []prometheus.Collector {
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return value()
		})
	}
	return []prometheus.Collector{
		gauge("ingot_cluster_servers", "Servers on this database that are alive, with this one.",
			func() float64 { return float64(1 + len(c.seen.others)) }),
		gauge("ingot_cluster_shards", "Shards of apps that this server works on.",
			func() float64 { return float64(c.shards().Len()) }),
		gauge("ingot_cluster_leases", "Leases that this server holds: its shards, and work that one server does for all.",
			func() float64 { return float64(len(c.held)) }),
		gauge("ingot_cluster_clock_skew_seconds", "Difference between the clock of the database and that of this server.",
			func() float64 { return c.skew.Seconds() }),
	}
}
