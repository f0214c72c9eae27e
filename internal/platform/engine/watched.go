package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
)

// Limits for the time of engine calls, and for their return after that.
const (
	askTime     = 30 * time.Second // Get, Signal, Usage, Records, Dial
	listTime    = 2 * time.Minute  // an engine may have to ask thousands of agents
	execTime    = time.Minute
	startTime   = 10 * time.Minute
	removeTime  = 5 * time.Minute
	collectTime = 30 * time.Minute
	hungGrace   = 15 * time.Second
)

// Watched returns an engine whose calls always return: a panic becomes an error, and a call
// that does not return some time after its timeout or its context is abandoned, with an
// error that wraps background.ErrHung. So a hanging instance blocks neither other instances
// nor the server's shutdown.
//
// No call takes longer than most; grace is how long it may then take to return. Zero means
// the defaults.
func Watched(e Engine, most, grace time.Duration) Engine {
	most = cmp.Or(most, startTime+collectTime)
	grace = cmp.Or(grace, hungGrace)
	return watched{e, most, grace}
}

type watched struct {
	Engine
	most, grace time.Duration
}

func (w watched) do(ctx context.Context, name string, limit time.Duration, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, min(limit, w.most))
	defer cancel()
	return background.Within(ctx, "engine "+name, w.grace, func() error { return f(ctx) })
}

func ask[T any](ctx context.Context, w watched, name string, limit time.Duration,
	f func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, min(limit, w.most))
	defer cancel()
	return background.Call(ctx, "engine "+name, w.grace, func() (T, error) { return f(ctx) })
}

func (w watched) Start(ctx context.Context, s Spec) error {
	return w.do(ctx, "start", startTime, func(ctx context.Context) error { return w.Engine.Start(ctx, s) })
}

func (w watched) Signal(ctx context.Context, id string) error {
	return w.do(ctx, "signal", askTime, func(ctx context.Context) error { return w.Engine.Signal(ctx, id) })
}

func (w watched) Remove(ctx context.Context, id string) error {
	return w.do(ctx, "remove", removeTime, func(ctx context.Context) error { return w.Engine.Remove(ctx, id) })
}

func (w watched) List(ctx context.Context, wanted Wanted) ([]Instance, error) {
	return ask(ctx, w, "list", listTime,
		func(ctx context.Context) ([]Instance, error) { return w.Engine.List(ctx, wanted) })
}

func (w watched) Get(ctx context.Context, id string) (Instance, error) {
	return ask(ctx, w, "get", askTime, func(ctx context.Context) (Instance, error) { return w.Engine.Get(ctx, id) })
}

func (w watched) Usage(ctx context.Context, id string) (Usage, error) {
	return ask(ctx, w, "usage", askTime, func(ctx context.Context) (Usage, error) { return w.Engine.Usage(ctx, id) })
}

// Records limits the time of opening the stream; ctx is that of the whole stream.
func (w watched) Records(ctx context.Context, id string, after Position) (Stream, error) {
	opening, cancel := context.WithTimeout(ctx, min(askTime, w.most))
	defer cancel()
	return opened(opening, w, "records", func() (Stream, error) { return w.Engine.Records(ctx, id, after) })
}

func (w watched) Exec(ctx context.Context, id string, r ExecRequest) (Process, error) {
	ctx, cancel := context.WithTimeout(ctx, min(execTime, w.most))
	defer cancel()
	return opened(ctx, w, "exec", func() (Process, error) { return w.Engine.Exec(ctx, id, r) })
}

func (w watched) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, min(askTime, w.most))
	defer cancel()
	return opened(ctx, w, "dial", func() (net.Conn, error) { return w.Engine.Dial(ctx, id, network, address) })
}

// opened runs a call that opens something. If it is opened after the call was abandoned, it
// is closed.
func opened[T io.Closer](ctx context.Context, w watched, name string, f func() (T, error)) (T, error) {
	var made T
	var settled atomic.Bool // set by whichever comes first: the result or the timeout
	got, err := background.Call(ctx, "engine "+name, w.grace, func() (T, error) {
		v, err := f()
		if err != nil {
			return v, err
		}
		made = v
		if !settled.CompareAndSwap(false, true) {
			_ = v.Close()
		}
		return v, nil
	})
	if errors.Is(err, background.ErrHung) && !settled.CompareAndSwap(false, true) {
		_ = made.Close()
	}
	return got, err
}

// Collect is limited as a whole. An abandoned call may still write to the writer: after
// background.ErrHung the caller must not use what was written.
func (w watched) Collect(ctx context.Context, id, path string, to io.Writer) error {
	return w.do(ctx, "collect", collectTime,
		func(ctx context.Context) error { return w.Engine.Collect(ctx, id, path, to) })
}

func (w watched) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), min(removeTime, w.most))
	defer cancel()
	return background.Within(ctx, "engine close", w.grace, w.Engine.Close)
}
