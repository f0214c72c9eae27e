package inbox

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Notices carries the names of changed inboxes between servers that share a store.
type Notices interface {
	// Shared reports whether there may be other servers.
	Shared() bool
	TellInboxes(ctx context.Context, payload string) error
	// HearInboxes calls connected and then received until ctx is done or the connection ends.
	HearInboxes(ctx context.Context, connected func(), received func(payload string)) error
}

// Limits bound the open streams. Zero fields have a default.
type Limits struct{ User, Client, Server int }

const (
	defaultPerUser   = 10
	defaultPerClient = 20_000
	defaultPerServer = 50_000

	// workers is the number of inboxes that are read at the same time.
	workers = 4
	// inboxesAtOnce is the number of inboxes that a worker reads in one transaction.
	inboxesAtOnce = 64
	// changesAtOnce is the number of changes that are sent one by one; after more, the client loads its list again.
	changesAtOnce = 50

	defaultBeat = 25 * time.Second
	// writeTime is how long a write may take. The system buffers much more than an event, so only a client that has not
	// read for long makes one wait.
	writeTime = 250 * time.Millisecond
	// noticeTime limits telling other servers of one change.
	noticeTime = 5 * time.Second
	// manyNotices is the number of notices that may wait to be sent; the others are found by polling.
	manyNotices = 10_000
	// noticeBytes is what a notification of PostgreSQL may have.
	noticeBytes = 7000
	// pollEvery is how often to look for changes that no notice told of, pollAlone when no notice can be heard.
	pollEvery = 10 * time.Second
	pollAlone = time.Second
	// overlap is by how much polls overlap: clocks differ, and transactions take time.
	overlap   = 10 * time.Second
	polled    = 1000
	reconnect = 5 * time.Second
)

// Options configure a Hub.
type Options struct {
	Store notify.Inboxes
	// Notices is nil if no other server uses the store.
	Notices Notices
	// Encode returns a notification as JSON.
	Encode func(n notify.Notification, unread int) []byte
	Limits Limits
	// Beat is how often a stream that has nothing to say says so (25 s).
	Beat time.Duration
	Log  *slog.Logger
	// Registry gets the metrics; nil means none.
	Registry prometheus.Registerer
}

// Hub holds the open streams of this server. It is a background.Service.
type Hub struct {
	background.Part
	o       Options
	metrics metrics

	mu      sync.Mutex
	stopped bool
	inboxes map[notify.Owner]*open
	clients map[string]int
	streams int
	dirty   []notify.Owner // to be read, each once
	wake    chan struct{}

	notices chan notify.Owner
	heard   chan struct{} // capacity 1: notices are received, or no longer
	hears   bool
}

// open is an inbox with streams.
type open struct {
	streams []*stream
	dirty   bool // it is in Hub.dirty
	reading bool
	again   bool // it changed while it was read
}

// NewHub returns a Hub without streams.
func NewHub(o Options) *Hub {
	set := func(n *int, otherwise int) {
		if *n <= 0 {
			*n = otherwise
		}
	}
	set(&o.Limits.User, defaultPerUser)
	set(&o.Limits.Client, defaultPerClient)
	set(&o.Limits.Server, defaultPerServer)
	if o.Beat <= 0 {
		o.Beat = defaultBeat
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Notices != nil && !o.Notices.Shared() {
		o.Notices = nil
	}
	return &Hub{o: o, metrics: newMetrics(o.Registry), inboxes: map[notify.Owner]*open{}, clients: map[string]int{},
		wake: make(chan struct{}, workers), notices: make(chan notify.Owner, manyNotices), heard: make(chan struct{}, 1)}
}

// Start starts writing to streams.
func (h *Hub) Start(ctx context.Context) error {
	return h.Launch(ctx, func(work context.Context, spawn func(func())) error {
		loop := func(name string, run func(context.Context)) {
			spawn(func() { background.Loop(work, name, func() { run(work) }) })
		}
		for range workers {
			loop("inbox events", h.work)
		}
		loop("inbox heartbeats", h.beats)
		if h.o.Notices != nil {
			loop("inbox notices", h.tell)
			loop("inbox notices of others", h.hear)
			loop("inbox polling", h.poll)
		}
		return nil
	})
}

// Stop closes all streams. Clients connect to another server.
func (h *Hub) Stop() {
	h.Halt(nil)
	h.mu.Lock()
	h.stopped = true
	var all []*stream
	for _, in := range h.inboxes {
		all = append(all, in.streams...)
	}
	h.mu.Unlock()
	for _, s := range all {
		h.remove(s)
	}
}

// Changed tells the streams of an inbox, on all servers, that it changed. It never blocks.
func (h *Hub) Changed(of notify.Owner) {
	h.changed(of)
	if h.o.Notices == nil {
		return
	}
	select {
	case h.notices <- of:
	default: // polling finds it
	}
}

// changed is Changed for this server.
func (h *Hub) changed(of notify.Owner) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in := h.inboxes[of]; in != nil {
		h.mark(of, in)
	}
}

// mark lets a worker read an inbox. The caller holds the lock.
func (h *Hub) mark(of notify.Owner, in *open) {
	switch {
	case in.reading:
		in.again = true
	case !in.dirty:
		in.dirty = true
		h.dirty = append(h.dirty, of)
		select {
		case h.wake <- struct{}{}:
		default:
		}
	}
}

// reading is an inbox that a worker reads, and its streams.
type reading struct {
	notify.InboxRead
	streams []*stream
}

// next returns inboxes to read.
func (h *Hub) next() (all []reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.dirty) > 0 && len(all) < inboxesAtOnce {
		of := h.dirty[0]
		if h.dirty = h.dirty[1:]; len(h.dirty) == 0 {
			h.dirty = nil
		}
		if in := h.inboxes[of]; in != nil && in.dirty {
			in.dirty, in.reading = false, true
			all = append(all, reading{notify.InboxRead{Owner: of}, append([]*stream(nil), in.streams...)})
		}
	}
	return all
}

// read ends what next began.
func (h *Hub) read(all []reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range all {
		in := h.inboxes[one.Owner]
		if in == nil {
			continue
		}
		in.reading = false
		if in.again {
			in.again = false
			h.mark(one.Owner, in)
		}
	}
}

// work sends events to the streams of changed inboxes.
func (h *Hub) work(ctx context.Context) {
	for {
		for {
			all := h.next()
			if len(all) == 0 {
				break
			}
			h.send(ctx, all)
			h.read(all)
			if ctx.Err() != nil {
				return
			}
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			return
		}
	}
}

// send sends what changed to the streams of inboxes. If the store fails, each is read by itself, so that one that
// cannot be read does not end the streams of the others.
func (h *Hub) send(ctx context.Context, all []reading) {
	reads := make([]notify.InboxRead, len(all))
	for i := range all {
		after := int64(1<<63 - 1)
		for _, s := range all[i].streams {
			after = min(after, s.position())
		}
		all[i].After = after
		reads[i] = all[i].InboxRead
	}
	var changes []notify.InboxChanges
	err := background.Do("inbox events", func() (err error) {
		changes, err = h.o.Store.ReadInboxes(ctx, reads, changesAtOnce+1)
		return err
	})
	switch {
	case err == nil:
		for i, one := range all {
			for _, s := range one.streams {
				if !s.events(changes[i].InboxState, changes[i].Changed, h.o.Encode) {
					h.remove(s)
				}
			}
		}
	case len(all) > 1 && ctx.Err() == nil:
		for i := range all {
			h.send(ctx, all[i:i+1])
		}
	default:
		h.failed(ctx, all, err)
	}
}

// failed closes the streams of inboxes that cannot be read: their clients connect again, later.
func (h *Hub) failed(ctx context.Context, all []reading, err error) {
	if ctx.Err() == nil {
		h.o.Log.Warn("read changes of an inbox failed, its streams are closed", "error", err)
	}
	for _, one := range all {
		for _, s := range one.streams {
			h.remove(s)
		}
	}
}

// beats writes to streams that have been silent, and closes those whose token has expired.
func (h *Hub) beats(ctx context.Context) {
	tick := min(time.Second, h.o.Beat/2)
	for range background.Ticks(ctx, tick, nil) {
		now := time.Now()
		var due []*stream
		h.mu.Lock()
		for _, in := range h.inboxes {
			for _, s := range in.streams {
				if s.due(now, h.o.Beat) {
					due = append(due, s)
				}
			}
		}
		h.mu.Unlock()
		for _, s := range due {
			if !now.Before(s.expires) || !s.beat() {
				h.remove(s)
			}
		}
	}
}

// add adds a stream unless there are too many.
func (h *Hub) add(s *stream) error {
	if err := h.try(s); err == nil || !fault.Is(err, fault.RateLimited) || !h.clear(s.of) {
		return err
	}
	return h.try(s)
}

func (h *Hub) try(s *stream) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.inboxes[s.of]
	l := h.o.Limits
	switch {
	case h.stopped:
		return fault.New(fault.Unavailable, "The server is stopping: connect again").After(time.Second)
	case in != nil && len(in.streams) >= l.User:
		return fault.New(fault.RateLimited, "The user %q of the client %q has %d event streams open, which is the limit: "+
			"close one", s.of.UserID, s.of.ClientID, l.User).After(h.o.Beat)
	case h.clients[s.of.ClientID] >= l.Client:
		return fault.New(fault.RateLimited, "The client %q has %d event streams open on this server, which is the limit: "+
			"try again later", s.of.ClientID, l.Client).After(h.o.Beat)
	case h.streams >= l.Server:
		return fault.New(fault.Unavailable, "This server has %d event streams open, which is the limit: try again later",
			l.Server).After(h.o.Beat)
	}
	if in == nil {
		in = &open{}
		h.inboxes[s.of] = in
	}
	in.streams = append(in.streams, s)
	h.clients[s.of.ClientID]++
	h.streams++
	h.metrics.open.Inc()
	return nil
}

// clear removes the streams of an inbox whose clients have gone away, and reports whether there were any.
func (h *Hub) clear(of notify.Owner) bool {
	h.mu.Lock()
	var all []*stream
	if in := h.inboxes[of]; in != nil && len(in.streams) >= h.o.Limits.User {
		all = append(all, in.streams...)
	}
	h.mu.Unlock()
	some := false
	for _, s := range all {
		if s.gone() {
			h.remove(s)
			some = true
		}
	}
	return some
}

// remove closes a stream.
func (h *Hub) remove(s *stream) {
	s.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	in := h.inboxes[s.of]
	if in == nil {
		return
	}
	for i, other := range in.streams {
		if other != s {
			continue
		}
		in.streams = append(in.streams[:i:i], in.streams[i+1:]...)
		if len(in.streams) == 0 {
			delete(h.inboxes, s.of)
		}
		if h.clients[s.of.ClientID]--; h.clients[s.of.ClientID] == 0 {
			delete(h.clients, s.of.ClientID)
		}
		h.streams--
		h.metrics.open.Dec()
		return
	}
}

// tell tells other servers which inboxes changed, many in one notice, each with its own time limit.
func (h *Hub) tell(ctx context.Context) {
	for {
		var of notify.Owner
		select {
		case of = <-h.notices:
		case <-ctx.Done():
			return
		}
		var b strings.Builder
		for more := true; more && b.Len() < noticeBytes; {
			if line := of.ClientID + "\t" + of.UserID + "\n"; b.Len()+len(line) <= noticeBytes {
				b.WriteString(line) // polling finds what is too long
			}
			select {
			case of = <-h.notices:
			default:
				more = false
			}
		}
		limited, cancel := context.WithTimeout(ctx, noticeTime)
		if err := h.o.Notices.TellInboxes(limited, b.String()); err != nil && ctx.Err() == nil {
			h.o.Log.Warn("tell other servers of changed inboxes failed, they find them later", "error", err)
		}
		cancel()
	}
}

// hear hears which inboxes changed on other servers.
func (h *Hub) hear(ctx context.Context) {
	for ctx.Err() == nil {
		err := h.o.Notices.HearInboxes(ctx, func() { h.listening(true) }, func(payload string) {
			for line := range strings.Lines(payload) {
				if client, user, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); ok {
					h.changed(notify.Owner{ClientID: client, UserID: user})
				}
			}
		})
		h.listening(false)
		if ctx.Err() == nil {
			h.o.Log.Warn("listening for changed inboxes ended, connecting again", "error", err)
		}
		timer := time.NewTimer(reconnect)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

func (h *Hub) listening(now bool) {
	h.mu.Lock()
	h.hears = now
	h.mu.Unlock()
	select {
	case h.heard <- struct{}{}:
	default:
	}
}

// poll finds changes that no notice told of.
func (h *Hub) poll(ctx context.Context) {
	since := time.Now()
	for {
		h.mu.Lock()
		pause := pollAlone
		if h.hears {
			pause = pollEvery
		}
		h.mu.Unlock()
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-h.heard:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		began := time.Now()
		changed, more, err := h.o.Store.ChangedInboxes(ctx, since.Add(-overlap), polled)
		if err != nil {
			continue
		}
		if more { // reading all open ones costs less
			h.mu.Lock()
			for of, in := range h.inboxes {
				h.mark(of, in)
			}
			h.mu.Unlock()
		}
		for _, of := range changed {
			h.changed(of)
		}
		since = began
	}
}
