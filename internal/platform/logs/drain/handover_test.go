package drain_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/logs/drain"
	"ingot/internal/platform/logs/logfiles"
)

// shared are the positions of drains of several servers.
type shared struct {
	mu sync.Mutex
	at map[[2]string]uint64
}

func (s *shared) Position(_ context.Context, app, id string) (uint64, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sent, known := s.at[[2]string{app, id}]
	return sent, known, nil
}

func (s *shared) SetPosition(ctx context.Context, app, id string, sent uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at[[2]string{app, id}] = sent
	return ctx.Err()
}

func (s *shared) SweepPositions(_ context.Context, wanted map[string][]string, mine func(string) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.at {
		if mine(key[0]) && !slices.Contains(wanted[key[0]], key[1]) {
			delete(s.at, key)
		}
	}
	return nil
}

// half owns no app from the start.
type half struct{}

func (half) Shard(string) uint64                                 { return 1 }
func (half) Shards() uint64                                      { return 0 }
func (half) Owns(string) bool                                    { return true }
func (half) Fence(ctx context.Context, _ string) context.Context { return ctx }

// TestHandover: a drain moves from server to server. Each line is sent once, although none
// counts as received before the move.
func TestHandover(t *testing.T) {
	t.Parallel()
	r := listen(t, "127.0.0.1:0", nil, 0, 0)
	s := open(t, logfiles.Options{})
	o := options("")
	o.Positions, o.Owner, o.Settle = &shared{at: map[[2]string]uint64{}}, half{}, time.Hour
	source := one("a", drain.Drain{ID: "d", URL: "syslog://" + r.listener.Addr().String()})
	servers := []*drain.Manager{start(t, s, source, o), start(t, s, source, o)}
	const each = 200
	for turn := range 4 {
		m := servers[turn%2]
		m.Gained(1)
		testkit.Eventually(t, "it begins", func() bool { all := m.Stats(); return len(all) == 1 && all[0].Ready })
		write(t, s, "a", turn*each, (turn+1)*each)
		r.await(t, "the lines", func(all []string) bool { return len(numbers(all)) == (turn+1)*each })
		m.Lost(1)
		if all := m.Stats(); len(all) != 0 {
			t.Errorf("got drains %+v after the shard was lost, want none", all)
		}
	}
	all := r.await(t, "the lines", func([]string) bool { return true })
	checkComplete(t, all, 0, 4*each)
	if len(all) != 4*each {
		t.Errorf("got %d lines, want %d: some were sent twice", len(all), 4*each)
	}
}
