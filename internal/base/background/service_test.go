package background_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		return background.Every(time.Microsecond, func(context.Context) {})
	})
}

func TestGroupHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(*testing.T) background.Service {
		return background.NewGroup(
			background.Every(time.Microsecond, func(context.Context) {}),
			background.Every(time.Hour, func(context.Context) {}),
		)
	})
}

// part records when it is started and stopped.
type part struct {
	background.Part
	name string
	fail error
	log  *[]string
}

func (p *part) Start(ctx context.Context) error {
	return p.Launch(ctx, func(work context.Context, spawn func(func())) error {
		*p.log = append(*p.log, "start "+p.name)
		spawn(func() { <-work.Done() })
		return p.fail
	})
}

func (p *part) Stop() {
	p.Halt(func() { *p.log = append(*p.log, "stop "+p.name) })
}

func TestGroupStopsInReverse(t *testing.T) {
	t.Parallel()
	var log []string
	g := background.NewGroup(&part{name: "a", log: &log}, &part{name: "b", log: &log})
	if err := g.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	g.Stop()
	want := []string{"start a", "start b", "stop b", "stop a"}
	if !slices.Equal(log, want) {
		t.Errorf("got %v, want %v", log, want)
	}
}

func TestGroupUndoesAFailedStart(t *testing.T) {
	t.Parallel()
	var log []string
	broken := errors.New("no port")
	g := background.NewGroup(&part{name: "a", log: &log}, &part{name: "b", log: &log, fail: broken},
		&part{name: "c", log: &log})
	if err := g.Start(context.Background()); !errors.Is(err, broken) {
		t.Fatalf("Start = %v, want %v", err, broken)
	}
	want := []string{"start a", "start b", "stop a"}
	if !slices.Equal(log, want) {
		t.Errorf("got %v, want %v", log, want)
	}
}

func TestStopWaitsForTheWork(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	var ended atomic.Bool
	s := background.Every(time.Hour, func(ctx context.Context) {
		close(entered)
		<-ctx.Done()
		ended.Store(true)
	})
	if err := s.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	<-entered
	s.Stop()
	if !ended.Load() {
		t.Error("Stop returned before the work had ended")
	}
}
