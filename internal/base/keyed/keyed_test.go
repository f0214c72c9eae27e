package keyed

import (
	"context"
	"errors"
	"testing"
)

func TestMutex(t *testing.T) {
	t.Parallel()
	var m Mutex
	unlockA, err := m.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	unlockB, err := m.Lock(t.Context(), "b") // another name is free
	if err != nil {
		t.Fatal(err)
	}
	unlockB()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Lock(ended, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("a held name: %v", err)
	}
	locked := make(chan func())
	go func() {
		unlock, err := m.Lock(context.Background(), "a")
		if err != nil {
			t.Error(err)
		}
		locked <- unlock
	}()
	unlockA()
	(<-locked)()
	if len(m.held) != 0 {
		t.Errorf("%d names are kept", len(m.held))
	}
}
