package router

import (
	"context"
	"log/slog"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
)

// Lines stores log lines of apps; the log store implements it.
type Lines interface {
	Tell(lines ...platform.LogLine) error
}

// AccessLog writes the router's access lines to the logs of their apps, in batches, so that
// no request waits for a disk. It is a background.Service.
type AccessLog struct {
	background.Part
	to    Lines
	log   *slog.Logger
	lines chan platform.LogLine
}

const (
	accessBuffer = 16384
	accessBatch  = 512
	// accessPause is how long a line waits to be written together with others.
	accessPause = 5 * time.Millisecond
)

// NewAccessLog returns an access log that is not running.
func NewAccessLog(to Lines, log *slog.Logger) *AccessLog {
	return &AccessLog{to: to, log: log, lines: make(chan platform.LogLine, accessBuffer)}
}

// Add queues the line of a request; it is meant for Options.AccessLog. A request without an
// app has no line. When the disk cannot keep up, the request waits, so that no line is
// lost.
func (a *AccessLog) Add(access Access) {
	if access.App == "" {
		return
	}
	a.lines <- platform.LogLine{
		App: access.App, Time: access.Time.Add(access.Duration), Source: "RTR", Instance: "0", Text: access.AppendLine(make([]byte, 0, 512)),
	}
}

// Start starts writing.
func (a *AccessLog) Start(ctx context.Context) error {
	return a.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() { a.write(work) })
		return nil
	})
}

// Stop writes the queued lines and stops.
func (a *AccessLog) Stop() { a.Halt(nil) }

func (a *AccessLog) write(ctx context.Context) {
	pause := time.NewTimer(accessPause)
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
		pause.Reset(accessPause)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
		batch = a.flushAll(batch)
	}
}

// flushAll writes the batch and all queued lines. It returns the emptied batch for reuse.
func (a *AccessLog) flushAll(batch []platform.LogLine) []platform.LogLine {
	for {
		select {
		case line := <-a.lines:
			if batch = append(batch, line); len(batch) == accessBatch {
				batch = a.flush(batch)
			}
		default:
			return a.flush(batch)
		}
	}
}

func (a *AccessLog) flush(batch []platform.LogLine) []platform.LogLine {
	if err := a.to.Tell(batch...); err != nil {
		a.log.Warn("writing access log lines failed", "error", err)
	}
	clear(batch)
	return batch[:0]
}
