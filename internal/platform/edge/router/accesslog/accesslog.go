package accesslog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
	"ingot/internal/platform"
	"ingot/internal/platform/edge/router"
)

// Lines stores log lines of apps; the log store implements it.
type Lines interface {
	Tell(lines ...platform.LogLine) error
}

// Log writes the router's access lines to the logs of their apps, in batches, so that
// no request waits for a disk. It is a background.Service.
type Log struct {
	background.Part
	mu    sync.Mutex // held while lines are written
	to    Lines
	log   *slog.Logger
	lines chan platform.LogLine
	// failed is when it was last logged that lines could not be written.
	failed atomic.Int64
}

const (
	buffer    = 16384
	batchSize = 512
	// pauseTime is how long a line waits to be written together with others.
	pauseTime = 5 * time.Millisecond
)

// New returns an access log that is not running.
func New(to Lines, log *slog.Logger) *Log {
	return &Log{to: to, log: log, lines: make(chan platform.LogLine, buffer)}
}

// Add queues the line of a request; it is meant for router.Options.AccessLog. A request without an
// app has no line. When the disk cannot keep up, the request waits, so that no line is
// lost.
func (a *Log) Add(access router.Access) {
	if access.App == "" {
		return
	}
	a.lines <- platform.LogLine{
		App: access.App, Time: access.Time.Add(access.Duration), Source: "RTR", Instance: "0",
		Text: access.AppendLine(make([]byte, 0, 512)),
	}
}

// Waiting returns the number of lines that wait to be written.
func (a *Log) Waiting() int { return len(a.lines) }

// Start starts writing.
func (a *Log) Start(ctx context.Context) error { return a.Run(ctx, a.write) }

// Stop writes the queued lines and stops.
func (a *Log) Stop() { a.Halt(nil) }

func (a *Log) write(ctx context.Context) {
	pause := time.NewTimer(pauseTime)
	defer pause.Stop()
	var batch []platform.LogLine
	for {
		select {
		case line := <-a.lines:
			batch = append(batch, line)
		case <-ctx.Done():
			a.flushAll(batch)
			return
		}
		// More lines usually follow soon: written together they cost one write.
		pause.Reset(pauseTime)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		batch = a.flushAll(batch)
	}
}

// flushAll writes the batch and all queued lines. It returns the emptied batch for reuse.
func (a *Log) flushAll(batch []platform.LogLine) []platform.LogLine {
	for {
		select {
		case line := <-a.lines:
			if batch = append(batch, line); len(batch) == batchSize {
				batch = a.flush(batch)
			}
		default:
			return a.flush(batch)
		}
	}
}

// Redirect writes to another store from now on. When it returns, the store before is not in
// use any more.
func (a *Log) Redirect(to Lines) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.to = to
}

func (a *Log) flush(batch []platform.LogLine) []platform.LogLine {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.to.Tell(batch...); err != nil && connlimit.LogDue(&a.failed) {
		a.log.Warn("writing access log lines failed", "error", err)
	}
	clear(batch)
	return batch[:0]
}
