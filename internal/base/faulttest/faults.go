package faulttest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
)

// Kind is a kind of fault.
type Kind string

const (
	Error Kind = "error"
	Panic Kind = "panic"
	Hang  Kind = "hang"  // until the context ends
	Stuck Kind = "stuck" // until the faults end, whatever the context says
)

// ErrInjected is the error of calls with an Error fault.
var ErrInjected = errors.New("an injected fault")

// Faults decides which calls fail. Before Begin, none do.
type Faults struct {
	mu    sync.Mutex
	rand  *rand.Rand
	rate  float64
	kinds []Kind
	calls map[string]int
	made  map[Kind]int
	over  chan struct{} // closed when the faults end
}

// New returns Faults that use a random sequence with this seed.
func New(seed uint64) *Faults {
	over := make(chan struct{})
	close(over)
	return &Faults{rand: rand.New(rand.NewPCG(seed, seed)), calls: map[string]int{}, //nolint:gosec // not a secret
		made: map[Kind]int{}, over: over}
}

// Begin makes a fraction of the calls, from 0 to 1, fail with one of the kinds.
func (f *Faults) Begin(rate float64, kinds ...Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.kinds, f.over = rate, kinds, make(chan struct{})
}

// End stops the faults and releases the calls that hang.
func (f *Faults) End() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate = 0
	select {
	case <-f.over:
	default:
		close(f.over)
	}
}

// Calls returns how often each call was made.
func (f *Faults) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// Made returns the number of injected faults by kind.
func (f *Faults) Made() map[Kind]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.made)
}

// Inject is called at the beginning of a call. It returns nil if the call gets
// no fault.
func (f *Faults) Inject(ctx context.Context, call string) error {
	f.mu.Lock()
	f.calls[call]++
	var kind Kind
	if len(f.kinds) > 0 && f.rand.Float64() < f.rate {
		kind = f.kinds[f.rand.IntN(len(f.kinds))]
		f.made[kind]++
	}
	over := f.over
	f.mu.Unlock()
	switch kind {
	case "":
		return nil
	case Panic:
		panic(fmt.Sprintf("an injected panic of %s", call))
	case Hang:
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
		}
	case Stuck:
		<-over
	}
	return fmt.Errorf("%s: %w", call, ErrInjected)
}

// Transport wraps t with faults.
func (f *Faults) Transport(t http.RoundTripper) http.RoundTripper { return faultyTransport{t, f} }

type faultyTransport struct {
	http.RoundTripper
	*Faults
}

func (t faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.Inject(r.Context(), "broker"); err != nil {
		return nil, err
	}
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections closes the idle connections of the wrapped transport.
func (t faultyTransport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
