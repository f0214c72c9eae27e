package drain

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

// Drain is a log drain of an app.
type Drain struct {
	// ID identifies the drain among those of its app, for its position: a binding's guid,
	// for example. It does not change with the URL.
	ID  string
	URL string // it may hold secrets
	// Certificate and Key, in PEM, are the client certificate; CA is the authority of the
	// receiver's certificate, if the system does not know it. TLS only.
	Certificate, Key, CA []byte
	// Host is the HOSTNAME of messages; see Hostname.
	Host string
	// About describes the app: names of org, space and app.
	About logs.About
}

// Source returns the drains of all apps, by app guid.
type Source interface {
	Drains(ctx context.Context) (map[string][]Drain, error)
}

// Options of a Manager. Zero fields mean the default.
type Options struct {
	Positions Positions // required
	// Owner decides which apps are handled; nil means all.
	Owner    platform.Owner
	Interval time.Duration // between reads of the source; 30 s
	// Guard decides which addresses are allowed; by default the internet only.
	Guard safedial.Guard
	TLS   *tls.Config // for connections; nil means the system's certificates
	// Settle is how long a connection must last after a line for the line to count as
	// received; 5 s.
	Settle time.Duration
	// Backoff is the first pause after a failure; it doubles up to a minute. 1 s.
	Backoff time.Duration
	// TellEvery is the shortest time between reports of dropped lines in the app's log, so
	// that a failing receiver does not fill it. 30 s.
	TellEvery time.Duration
	Log       *slog.Logger
}

// Manager runs a worker for every drain.
type Manager struct {
	background.Part
	store   logs.Store
	source  Source
	options Options
	share   *platform.Share
	kick    chan struct{}

	mu      sync.Mutex
	workers map[workerKey]*worker
}

type workerKey struct{ app, id string }

var _ background.Service = (*Manager)(nil)

// New returns a manager that is not started.
func New(store logs.Store, source Source, o Options) *Manager {
	o.Interval = cmp.Or(o.Interval, 30*time.Second)
	o.Settle = cmp.Or(o.Settle, 5*time.Second)
	o.TellEvery = cmp.Or(o.TellEvery, 30*time.Second)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return &Manager{store: store, source: source, options: o, share: platform.NewShare(o.Owner),
		kick: make(chan struct{}, 1), workers: map[workerKey]*worker{}}
}

// Kick triggers a read of the source: its drains changed.
func (m *Manager) Kick() { background.Kick(m.kick) }

// Start starts sending.
func (m *Manager) Start(ctx context.Context) error {
	return m.Run(ctx, func(work context.Context) {
		m.Kick()
		for range background.Ticks(work, m.options.Interval, m.kick) {
			m.refresh(work)
		}
		m.adjust(work, nil)
	})
}

// Stop stops all workers; each keeps its position.
func (m *Manager) Stop() { m.Halt(nil) }

func (m *Manager) refresh(ctx context.Context) {
	wanted, err := m.source.Drains(ctx)
	if err != nil {
		if ctx.Err() == nil {
			m.options.Log.WarnContext(ctx, "reading the log drains failed, keeping the known ones", "error", err)
		}
		return
	}
	m.adjust(ctx, wanted)
	ids := map[string][]string{}
	for app, drains := range wanted {
		for _, d := range drains {
			ids[app] = append(ids[app], d.ID)
		}
	}
	if err := m.options.Positions.SweepPositions(ctx, ids, m.share.Works); err != nil && ctx.Err() == nil {
		m.options.Log.WarnContext(ctx, "positions of deleted log drains could not be removed; this is tried again",
			"error", err)
	}
}

// Gained starts to send the lines of the apps of shards.
func (m *Manager) Gained(shards uint64) {
	m.share.Gain(shards)
	m.Kick()
}

// Lost stops the drains of the apps of shards. When it returns, their positions are stored
// and nothing more is sent.
func (m *Manager) Lost(shards uint64) {
	m.share.Lost(shards, func() (all []*platform.Work) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for key, w := range m.workers {
			if m.share.In(shards, key.app) {
				all = append(all, w.Work)
				delete(m.workers, key)
			}
		}
		return all
	})
}

// adjust stops workers whose drain was removed or changed, and starts those that are
// missing.
func (m *Manager) adjust(ctx context.Context, wanted map[string][]Drain) {
	m.mu.Lock()
	defer m.mu.Unlock()
	want := map[workerKey]Drain{}
	for app, drains := range wanted {
		if !m.share.Works(app) {
			continue
		}
		for _, d := range drains {
			want[workerKey{app, d.ID}] = d
		}
	}
	var ending []*worker
	for key, w := range m.workers {
		if d, ok := want[key]; ok && reflect.DeepEqual(d, w.drain) {
			continue
		}
		w.Cancel()
		ending = append(ending, w)
		delete(m.workers, key)
	}
	for _, w := range ending {
		w.Wait() // its position is stored now
	}
	if ctx.Err() != nil {
		return
	}
	for key, d := range want {
		if m.workers[key] == nil {
			m.workers[key] = m.startWorker(ctx, key, d)
		}
	}
}

func (m *Manager) startWorker(ctx context.Context, key workerKey, d Drain) *worker {
	w := &worker{manager: m, id: key.id, drain: d, stats: Stat{App: key.app, ID: key.id}}
	ctx, w.Work = m.share.Begin(ctx, key.app)
	background.Go("log drain", func() {
		defer w.End()
		background.Loop(ctx, "log drain", func() { w.run(ctx) })
	})
	return w
}

// Stat is the state of a drain.
type Stat struct {
	App, ID string
	Target  string // scheme and host
	Ready   bool   // its position is known
	Taken   uint64 // number of the last line that was received
	Sent    uint64 // lines since the start, including repeated ones
	Lost    uint64 // dropped lines
	Waiting uint64 // lines that may not have been received
	Error   string // current error
	// Failures is the number of failures in a row.
	Failures uint64
}

// Stats returns the state of all drains.
func (m *Manager) Stats() []Stat {
	m.mu.Lock()
	workers := make([]*worker, 0, len(m.workers))
	workers = slices.AppendSeq(workers, maps.Values(m.workers))
	m.mu.Unlock()
	out := make([]Stat, 0, len(workers))
	for _, w := range workers {
		out = append(out, w.stat())
	}
	slices.SortFunc(out, func(a, b Stat) int { return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.ID, b.ID)) })
	return out
}
