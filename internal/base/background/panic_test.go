package background_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/background"
)

var errBroken = errors.New("broken")

func TestDo(t *testing.T) {
	t.Parallel()
	if err := background.Do("fine", func() error { return nil }); err != nil {
		t.Errorf("fine: %v", err)
	}
	if err := background.Do("fails", func() error { return errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("fails: %v", err)
	}
	before := background.Panics()["test do"]
	err := background.Do("test do", func() error { panic(fmt.Errorf("wrapped: %w", errBroken)) })
	var p *background.PanicError
	if !errors.As(err, &p) || !errors.Is(err, errBroken) {
		t.Fatalf("error is %v, want a %T with %v", err, p, errBroken)
	}
	if p.Name != "test do" || !bytes.Contains(p.Stack, []byte("TestDo")) ||
		!strings.Contains(err.Error(), "test do panicked: wrapped: broken") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("error is %q, want the name and the cause, and the stack apart:\n%s", err, p.Stack)
	}
	var none *int
	if err := background.Do("test do", func() error { return fmt.Errorf("%d", *none) }); err == nil {
		t.Error("a nil pointer is no error")
	}
	if n := background.Panics()["test do"] - before; n != 2 {
		t.Errorf("%d panics were counted, want 2", n)
	}
}

// Waiting for a goroutine ends when it panics, too.
func TestNobodyWaitsForEver(t *testing.T) {
	t.Parallel()
	var p *background.PanicError
	if err := <-background.Async("test", func() error { panic("here") }); !errors.As(err, &p) {
		t.Errorf("Async: %v", err)
	}
	pr, pw := io.Pipe()
	done := background.Feed("test", pw, func() error {
		_, _ = pw.Write([]byte("some"))
		panic("here")
	})
	if b, err := io.ReadAll(pr); !errors.As(err, &p) || string(b) != "some" {
		t.Errorf("Feed: %q, %v", b, err)
	}
	<-done
	var wg background.WaitGroup
	var errs [2]error
	wg.Go("test", func() { panic("here") })
	wg.Try("test", &errs[0], func() error { panic("here") })
	wg.Try("test", &errs[1], func() error { return errBroken })
	wg.Wait()
	if !errors.As(errs[0], &p) || !errors.Is(errs[1], errBroken) {
		t.Errorf("Try: %v", errs)
	}
	fired := make(chan struct{})
	background.AfterFunc("test", 0, func() { defer close(fired); panic("here") })
	<-fired
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	background.OnDone(ctx, "test", func() { defer close(ended); panic("here") })
	cancel()
	<-ended
}

// A loop that panics is called again, and ends with Stop also while it rests.
func TestLoopsGoOn(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	again := make(chan struct{})
	s := &service{run: func(ctx context.Context) {
		switch calls.Add(1) {
		case 1:
			panic("once")
		case 2:
			close(again)
			<-ctx.Done()
		}
	}}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-again
	s.Stop()

	third := make(chan struct{})
	calls.Store(0)
	poison := &service{run: func(context.Context) {
		if calls.Add(1) == 3 {
			close(third)
		}
		panic("always")
	}}
	if err := poison.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-third
	poison.Stop()
}

type service struct {
	background.Part
	run func(context.Context)
}

func (s *service) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { s.run(work) })
		return nil
	})
}
func (s *service) Stop() { s.Halt(nil) }

func TestEverySurvives(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	second := make(chan struct{})
	s := background.Every(time.Millisecond, func(context.Context) {
		switch calls.Add(1) {
		case 1:
			panic("once")
		case 2:
			close(second)
		}
	})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-second
	s.Stop()
}

// A part whose setup or teardown panics is an error or stopped, and others stop
// too.
func TestPanicsOfStartAndStop(t *testing.T) {
	t.Parallel()
	var p background.Part
	var panicked *background.PanicError
	err := p.Launch(t.Context(), func(work context.Context, spawn func(func())) error {
		spawn(func() { <-work.Done() })
		panic("here")
	})
	if !errors.As(err, &panicked) {
		t.Errorf("Launch: %v", err)
	}
	for name, halt := range map[string]func(*background.Part, func()){"Halt": (*background.Part).Halt,
		"HaltGently": (*background.Part).HaltGently} {
		var p background.Part
		ended := make(chan struct{})
		if err := p.Launch(t.Context(), func(work context.Context, spawn func(func())) error {
			spawn(func() { defer close(ended); <-work.Done() })
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		halt(&p, func() { panic("here") })
		select {
		case <-ended:
		default:
			t.Errorf("%s returned before the work had ended", name)
		}
	}
}

// Each is reported with its stack. (There is one report for the whole process, so
// this test is alone.)
func TestPanicsAreReported(t *testing.T) { //nolint:paralleltest // changes the report of the process
	reported := make(chan *background.PanicError, 1)
	background.OnPanic(func(e *background.PanicError) { reported <- e })
	defer background.OnPanic(func(*background.PanicError) {})
	background.Safely("test report", func() { panic("seen") })
	e := <-reported
	if e.Name != "test report" || e.Value != "seen" || !strings.Contains(string(e.Stack), "TestPanicsAreReported") {
		t.Errorf("reported %+v\n%s", e, e.Stack)
	}
}
