package engine_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/faulttest"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/instance/initproto"
)

// plain is an engine that answers everything at once.
type plain struct{}

func (plain) Describe() engine.Description             { return engine.Description{Name: "plain"} }
func (plain) Start(context.Context, engine.Spec) error { return nil }
func (plain) Signal(context.Context, string) error     { return nil }
func (plain) Remove(context.Context, string) error     { return nil }
func (plain) List(context.Context, engine.Wanted) ([]engine.Instance, error) {
	return make([]engine.Instance, 2), nil
}
func (plain) Get(context.Context, string) (engine.Instance, error) {
	return engine.Instance{ID: "a"}, nil
}
func (plain) Usage(context.Context, string) (engine.Usage, error) {
	return engine.Usage{Memory: 1}, nil
}
func (plain) Collect(context.Context, string, string, io.Writer) error { return nil }
func (plain) Close() error                                             { return nil }
func (plain) Records(context.Context, string, engine.Position) (engine.Stream, error) {
	return stream{}, nil
}

func (plain) Exec(context.Context, string, engine.ExecRequest) (engine.Process, error) {
	return nil, errors.ErrUnsupported
}

func (plain) Dial(context.Context, string, string, string) (net.Conn, error) {
	return nil, errors.ErrUnsupported
}

type stream struct{}

func (stream) Ack(engine.Position) error { return nil }

func (stream) Next() (initproto.Record, error) { return initproto.Record{}, io.EOF }
func (stream) Close() error                    { return nil }

// calls are all calls of an engine that take a context.
func calls(ctx context.Context, e engine.Engine) map[string]func() error {
	return map[string]func() error{
		"Start":   func() error { return e.Start(ctx, engine.Spec{}) },
		"Signal":  func() error { return e.Signal(ctx, "a") },
		"Remove":  func() error { return e.Remove(ctx, "a") },
		"List":    func() error { _, err := e.List(ctx, nil); return err },
		"Get":     func() error { _, err := e.Get(ctx, "a"); return err },
		"Usage":   func() error { _, err := e.Usage(ctx, "a"); return err },
		"Records": func() error { _, err := e.Records(ctx, "a", 0); return err },
		"Exec":    func() error { _, err := e.Exec(ctx, "a", engine.ExecRequest{}); return err },
		"Dial":    func() error { _, err := e.Dial(ctx, "a", "tcp", "b"); return err },
		"Collect": func() error { return e.Collect(ctx, "a", "b", io.Discard) },
	}
}

// Every call of a watched engine comes back, whatever becomes of it.
func TestWatched(t *testing.T) {
	t.Parallel()
	faults := faulttest.New(1)
	e := engine.Watched(enginetest.Faulty(plain{}, faults), 20*time.Millisecond, time.Millisecond)
	for name, call := range calls(t.Context(), e) {
		if err := call(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s without a fault: %v", name, err)
		}
	}
	if list, err := e.List(t.Context(), nil); len(list) != 2 || err != nil {
		t.Errorf("list is %v, %v, want 2 instances", list, err)
	}
	var panicked *background.PanicError
	for kind, as := range map[faulttest.Kind]func(error) bool{
		faulttest.Error: func(err error) bool { return errors.Is(err, faulttest.ErrInjected) },
		faulttest.Panic: func(err error) bool { return errors.As(err, &panicked) },
		faulttest.Hang:  func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		faulttest.Stuck: func(err error) bool { return errors.Is(err, background.ErrHung) },
	} {
		faults.Begin(1, kind)
		for name, call := range calls(t.Context(), e) {
			if err := call(); !as(err) {
				t.Errorf("%s with %s: %v", name, kind, err)
			}
		}
		faults.End()
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
