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

// Kind is what goes wrong.
type Kind string

// The kinds of faults.
const (
	Error Kind = "error"
	Panic Kind = "panic"
	Hang  Kind = "hang"  // until the context ends
	Stuck Kind = "stuck" // until the faults end, whatever the context says
)

// ErrInjected is the error of calls that fail.
var ErrInjected = errors.New("an injected fault")

// Faults decides which calls have a fault. Without any it changes nothing.
type Faults struct {
	mu    sync.Mutex
	rand  *rand.Rand
	rate  float64
	kinds []Kind
	calls map[string]int
	made  map[Kind]int
	over  chan struct{} // closed when the faults end
}

// New returns faults that are drawn from a seed. They begin with Begin.
func New(seed uint64) *Faults {
	over := make(chan struct{})
	close(over)
	return &Faults{rand: rand.New(rand.NewPCG(seed, seed)), calls: map[string]int{}, made: map[Kind]int{}, over: over} //nolint:gosec // not a secret
}

// Begin gives the calls of a rate from 0 to 1 one of the kinds.
func (f *Faults) Begin(rate float64, kinds ...Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.kinds, f.over = rate, kinds, make(chan struct{})
}

// End ends the faults, and the calls that hang.
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

// Made returns how many faults of each kind there were.
func (f *Faults) Made() map[Kind]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.made)
}

// Strike is called at the beginning of a call. It returns nil when that has no
// fault.
func (f *Faults) Strike(ctx context.Context, call string) error {
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

// Transport returns t with faults.
func (f *Faults) Transport(t http.RoundTripper) http.RoundTripper { return faultyTransport{t, f} }

type faultyTransport struct {
	http.RoundTripper
	*Faults
}

func (t faultyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.Strike(r.Context(), "broker"); err != nil {
		return nil, err
	}
	return t.RoundTripper.RoundTrip(r)
}

// CloseIdleConnections lets http.Client close those behind.
func (t faultyTransport) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
