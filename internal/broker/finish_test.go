package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/testkit"
	"ingot/internal/broker/forward"
)

// slow is a server on which nothing can be created until it is told so.
type slow struct {
	backend
	begun, made chan string
	let         chan struct{}
	broken      map[string]bool // instances whose deletion panics
}

func (s *slow) name() string                             { return "slow" }
func (s *slow) up(*instance) bool                        { return false }
func (s *slow) wake(context.Context, *instance) error    { return nil }
func (s *slow) target(*instance) (none forward.Endpoint) { return none }
func (s *slow) start(context.Context) error              { return nil }
func (s *slow) stop(bool)                                {}
func (s *slow) size(context.Context, *instance) (int64, error) {
	return 0, errors.New("the size of one that is not up was asked")
}

func (s *slow) drop(_ context.Context, i *instance) error {
	if s.broken[i.ID] {
		panic("a defect")
	}
	return nil
}

func (s *slow) ensure(ctx context.Context, i *instance) error {
	s.begun <- i.ID
	select {
	case <-s.let:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *slow) create(_ context.Context, i *instance, _ parameters) error {
	s.made <- i.ID
	return nil
}

// TestSlowCreations: creations that take long, more than are completed at the same time, delay neither deletions of
// other instances nor what looks at all of them, and are all completed. Nor do deletions that panic.
func TestSlowCreations(t *testing.T) {
	t.Parallel()
	const creations = 3 * finishers
	b, err := New(Config{Dir: tempDir(t), Keys: testKeys(t), Without: []string{Postgres, MySQL, Redis, Notifications}})
	if err != nil {
		t.Fatal(err)
	}
	s := &slow{begun: make(chan string, 10*creations), made: make(chan string, creations), let: make(chan struct{})}
	b.backends[Postgres] = []backend{s}
	_, planID := ids(Postgres, "small")
	record := func(phase phase) string {
		i := &instance{ID: uuid.NewString(), On: s.name(), Offering: Postgres, PlanID: planID, Phase: phase, Async: true,
			CreatedAt: time.Now(), Bindings: map[string]*binding{}}
		if err := b.state.save(i); err != nil {
			t.Fatal(err)
		}
		return i.ID
	}
	for range creations {
		record(creating)
	}
	var deleted []string
	for range creations {
		deleted = append(deleted, record(deleting))
	}
	s.broken = map[string]bool{}
	for range finishers + 1 {
		s.broken[record(deleting)] = true
	}
	if err := b.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stop)
	for range finishers {
		<-s.begun
	}
	testkit.Eventually(t, "the others are deleted", func() bool {
		for _, id := range deleted {
			if b.state.get(id) != nil {
				return false
			}
		}
		return true
	})
	if !b.openListeners(t.Context()) {
		t.Error("the listeners of instances that are ready are not open")
	}
	b.checkSizes(t.Context())
	close(s.let)
	for range creations {
		<-s.made
	}
	testkit.Eventually(t, "all are ready", func() bool {
		n := 0
		for _, i := range b.state.list() {
			if i.Phase == ready {
				n++
			}
		}
		return n == creations
	})
}
