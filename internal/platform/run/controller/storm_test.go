package controller

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// TestStorm does everything at once, and then looks whether it comes to what is
// wanted. The fake engine sees that no slot has two instances.
func TestStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	var mu sync.Mutex
	w.fake.refuse = func(engine.Spec) error {
		mu.Lock()
		defer mu.Unlock()
		if rand.IntN(5) == 0 {
			return errors.New("no room")
		}
		return nil
	}
	w.begin()
	c := w.c
	var all sync.WaitGroup
	for worker := range 4 {
		all.Go(func() {
			for i := range 40 {
				switch rand.IntN(6) {
				case 0:
					w.scaleQuietly(rand.IntN(6))
				case 1:
					w.restartQuietly(fmt.Sprint(worker, "-", i))
				case 2:
					_ = w.restartInstance("app", rand.IntN(4))
				case 3:
					if l, _ := w.fake.List(t.Context(), nil); len(l) > 0 {
						w.fake.mu.Lock()
						if in := w.fake.instances[l[0].ID]; in != nil {
							in.event(initproto.EventBody{Event: initproto.EventEnded, Status: 1, Reason: "x"})
						}
						w.fake.mu.Unlock()
					}
				case 4:
					w.clock.Advance(time.Minute)
				case 5:
					if err := c.Reconcile(t.Context(), "app"); err != nil {
						t.Error(err)
					}
				}
				c.Kick("app", "none", "app")
			}
		})
	}
	all.Wait()
	w.fake.set(func() { w.fake.refuse = nil })
	w.change(func(p *platform.Process) { p.Instances, p.Version = 4, "last" })
	ids := w.awaitRunning(4)
	w.settled()
	if l, _ := w.fake.List(t.Context(), nil); len(l) != 4 {
		t.Errorf("%d instances, want %v", len(l), ids)
	}
}

func (w *world) scaleQuietly(n int) {
	w.editProcess(func(p *platform.Process) { p.Instances = n })
}

func (w *world) restartQuietly(v string) { w.editProcess(func(p *platform.Process) { p.Version = v }) }

func (w *world) editProcess(f func(p *platform.Process)) {
	err := w.store.Store.Update(context.Background(), func(tx platform.Tx) error {
		p, err := tx.Processes().Get("app")
		if err != nil {
			return err
		}
		f(p)
		return tx.Processes().Update(p)
	})
	if err != nil {
		w.Error(err)
	}
}
