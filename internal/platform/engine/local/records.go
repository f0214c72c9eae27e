//go:build linux

package local

import (
	"context"
	"errors"
	"os"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// Follow is what a record stream needs to know about its instance and engine.
type Follow struct {
	// Closed is closed with the engine; then Next returns os.ErrClosed.
	Closed <-chan struct{}
	// Gone waits until ingot-init has ended, or ctx ends. When it returns nil the stream
	// ends after the existing records, even if ingot-init was killed before it wrote
	// initproto.EventEnded.
	Gone func(ctx context.Context) error
}

// Records streams the records after a position; see engine.Engine. ctx is that of the whole
// stream.
func (d *Dir) Records(ctx context.Context, after engine.Position, f Follow) (engine.Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, err := initproto.OpenReader(d.records(), uint64(after))
	if errors.Is(err, os.ErrNotExist) {
		return nil, engine.ErrNotFound // removed meanwhile
	}
	if err != nil {
		return nil, err
	}
	s := &stream{Reader: r, ctx: ctx}
	life, end := context.WithCancel(ctx)
	s.end = end
	s.work.Go("engine records", func() {
		if err := background.Do("engine records", func() error { return f.Gone(life) }); err == nil {
			r.Finish()
		} else if life.Err() == nil {
			end() // the end would go unnoticed: the reader must ask again
		}
	})
	s.work.Go("engine records", func() {
		select {
		case <-life.Done():
		case <-f.Closed:
		}
		_ = r.Close() // only read
	})
	return s, nil
}

type stream struct {
	*initproto.Reader
	ctx  context.Context //nolint:containedctx // the context of the request for the stream
	end  context.CancelFunc
	work background.WaitGroup
}

// Next is the reader's Next, with the reason why it was closed.
func (s *stream) Next() (initproto.Record, error) {
	rec, err := s.Reader.Next()
	if errors.Is(err, os.ErrClosed) && s.ctx.Err() != nil {
		err = s.ctx.Err()
	}
	return rec, err
}

// Ack does nothing: the files of ended instances are kept until Remove, and those of running
// ones have a limit of their own.
func (s *stream) Ack(engine.Position) error { return nil }

// Close stops reading. It may be called more than once, and while Next blocks.
func (s *stream) Close() error {
	s.end()
	err := s.Reader.Close()
	s.work.Wait()
	return err
}
