package traffic

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/edge/router"
)

// Store has the requests of all servers.
type Store interface {
	// AddTraffic adds requests to instances, and returns the guids of those it has.
	AddTraffic(ctx context.Context, more map[string]platform.Traffic) (stored []string, err error)
	// Traffic returns the sums of instances.
	Traffic(ctx context.Context, guids ...string) (map[string]platform.Traffic, error)
}

// interval is how often a server adds its requests to those of the others.
const interval = 15 * time.Second

// Counter counts the requests to instances: those through this server's router, and where
// several servers share a database those of the others, which each adds to a row.
type Counter struct {
	Proxy *router.Proxy
	Store Store // nil if there is no other server
	Log   *slog.Logger

	mu    sync.Mutex
	added map[string]platform.Traffic // this server's counts that are in rows
}

// Service adds this server's requests from time to time, and when it stops.
func (t *Counter) Service() background.Service {
	every := background.Every(interval, t.flush)
	return &afterStop{every, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		t.flush(ctx)
	}}
}

// afterStop is a service with a function that runs when it has stopped.
type afterStop struct {
	background.Service
	then func()
}

func (s *afterStop) Stop() {
	s.Service.Stop()
	s.then()
}

func countsOf(s router.Stats) platform.Traffic {
	return platform.Traffic{Requests: s.Requests, Classes: s.Classes, Buckets: s.Buckets[:], Duration: s.Duration,
		Sent: s.Sent, Received: s.Received, Connections: s.Connections}
}

// flush adds the requests since the last call to the rows.
func (t *Counter) flush(ctx context.Context) {
	if t.Store == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, more := map[string]platform.Traffic{}, map[string]platform.Traffic{}
	for _, s := range t.Proxy.Stats() {
		now[s.Instance] = countsOf(s)
		if delta := now[s.Instance].Minus(t.added[s.Instance]); delta.Requests+delta.Connections > 0 {
			more[s.Instance] = delta
		}
	}
	stored, err := t.Store.AddTraffic(ctx, more)
	if err != nil && ctx.Err() == nil {
		t.Log.WarnContext(ctx, "requests to instances could not be added to those of other servers; this is tried again",
			"error", err)
	}
	for _, guid := range stored {
		delete(more, guid)
	}
	for guid := range more { // not stored
		now[guid] = t.added[guid]
	}
	t.added = now // without those of instances that are gone
}

// Traffic implements apps.Traffic.
func (t *Counter) Traffic(ctx context.Context, guids ...string) map[string]apps.InstanceTraffic {
	var sums map[string]platform.Traffic
	if t.Store != nil {
		var err error
		if sums, err = t.Store.Traffic(ctx, guids...); err != nil && ctx.Err() == nil {
			t.Log.WarnContext(ctx, "requests to instances through other servers could not be read", "error", err)
		}
	}
	out := make(map[string]apps.InstanceTraffic, len(guids))
	for _, guid := range guids {
		sum := sums[guid]
		mine, _ := t.Proxy.InstanceStats(guid)
		t.mu.Lock()
		sum.Add(countsOf(mine).Minus(t.added[guid]))
		t.mu.Unlock()
		out[guid] = presented(sum, mine.Active)
	}
	return out
}

func presented(sum platform.Traffic, active int64) apps.InstanceTraffic {
	s := router.Stats{Requests: sum.Requests}
	copy(s.Buckets[:], sum.Buckets)
	t := apps.InstanceTraffic{
		Requests: sum.Requests, Active: active, Connections: sum.Connections, Classes: sum.Classes, Received: sum.Received,
		Sent: sum.Sent,
		P50:  s.Quantile(0.5), P95: s.Quantile(0.95), P99: s.Quantile(0.99),
	}
	if sum.Requests > 0 {
		t.Mean = sum.Duration / time.Duration(sum.Requests)
	}
	return t
}
