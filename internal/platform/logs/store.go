package logs

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform"
)

// Errors of a store and its tails after they were closed.
var (
	ErrStopped = errors.New("the log store is stopped")
	ErrClosed  = errors.New("the tail is closed")
)

// SourceLogs is the source of lines by the log itself.
const SourceLogs = "LGR"

// Limits that all stores share.
const (
	// DefaultShare is what one app may store.
	DefaultShare = int64(8 << 20)
	// DefaultTotal limits what all apps may store.
	DefaultTotal = int64(2 << 30)
	// MaxSkew is how far ahead the time of a line may be. A time further ahead is replaced.
	MaxSkew = time.Minute
	// BatchLines and BatchBytes limit a batch of a tail, except for a single longer line.
	BatchLines = 256
	BatchBytes = 32 << 10
)

// Store keeps the logs of all apps. It can be used once it is open; Start starts its
// housekeeping, Stop makes every call fail with ErrStopped.
//
// Lines of an app are numbered by arrival, from 1, without gaps, for the lifetime of the
// app.
type Store interface {
	background.Service

	// Append stores lines. When it returns nil they survive this process. A line whose Seq
	// is not above its stream's Position is already stored and skipped. Times that do not
	// increase within a stream are increased by a nanosecond; a time that is missing or in
	// the future becomes now.
	//
	// A line that can never be stored (a stream of another app, an invalid guid) does not
	// affect the others; the error describes it. After a failure, Position returns what was
	// stored.
	Append(lines ...platform.LogLine) error
	// Tell is Append for lines that are never repeated. Those without a stream that cannot
	// be stored are counted as lost, and the app's log reports that as soon as it can be
	// written again. A store may return before they are stored.
	Tell(lines ...platform.LogLine) error
	// Position returns the last Seq of a stream in the store, 0 if it is unknown. It
	// survives restarts, even if the line itself has been dropped.
	Position(stream string) uint64
	// Lost returns the number of lost lines of each stream. It survives restarts until the
	// stream is forgotten.
	Lost(streams ...string) map[string]uint64
	// Forget drops the position of a stream that has ended.
	Forget(stream string)
	// DeleteApp drops all lines of an app and the positions of its streams. Its tails end
	// with ErrClosed. Later lines start a new log.
	DeleteApp(app string) error

	// Read returns lines of an app in the order of their times; equal times are in the order
	// of arrival. An unknown app has no lines.
	Read(ctx context.Context, app string, q ReadQuery) ([]platform.LogLine, error)
	// Tail subscribes to an app. The subscriber calls Next from one goroutine, and Close at
	// the end.
	Tail(app string, from Start) (Tail, error)
	// Meta returns the metadata of all logs.
	Meta(ctx context.Context) (map[string]Meta, error)
	// Readers returns the live readers of the store.
	Readers() *Readers
	// Totals returns the figures of all apps together.
	Totals() Totals
}

// Meta is the metadata of an app's log.
type Meta struct {
	Count   uint64 // lines that can be read
	Expired uint64 // lines dropped to make room
	Lost    uint64 // lost lines; the log reports each loss
	Oldest  time.Time
	Newest  time.Time
	Bytes   int64
}

// Totals are the figures of a store.
type Totals struct {
	Apps  int64
	Bytes int64  // on disk
	Lost  uint64 // lines of all apps, since the store was opened
}

// Limits of ReadQuery.Limit.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// The envelope types of log lines.
const (
	TypeLog = "LOG"
	TypeAny = "ANY"
)

// ReadQuery selects lines. The zero value selects the oldest hundred.
type ReadQuery struct {
	Start int64 // nanoseconds since 1970, inclusive
	End   int64 // exclusive; 0 means no end
	// Limit is the largest number of lines: DefaultLimit if 0, at most MaxLimit. In
	// ascending order, lines with the same time as the last one are added, because a reader
	// that continues after it would miss them.
	Limit      int
	Descending bool     // the newest first, instead of the oldest
	Types      []string // envelope types; only LOG (or ANY) has lines; none means all
}

// HasLines reports whether log lines are among the selected envelope types.
func (q ReadQuery) HasLines() bool {
	return len(q.Types) == 0 || slices.Contains(q.Types, TypeLog) || slices.Contains(q.Types, TypeAny)
}

// Start is the start position of a tail.
type Start struct {
	Kind  StartKind
	Lines uint64 // a number of lines, or the number of a line
	Time  int64  // nanoseconds since 1970
}

// StartKind is what a Start counts from.
type StartKind int

// The kinds of Start; see the functions After, Newest and Since.
const (
	StartAfter StartKind = iota
	StartNewest
	StartSince
)

// After starts after the line with this number.
func After(number uint64) Start { return Start{Kind: StartAfter, Lines: number} }

// Newest starts with the newest existing lines.
func Newest(lines uint64) Start { return Start{Kind: StartNewest, Lines: lines} }

// Since starts with the first line, in the order of arrival, that is newer than t.
func Since(t time.Time) Start {
	if t.IsZero() {
		return Start{Kind: StartSince, Time: math.MinInt64}
	}
	return Start{Kind: StartSince, Time: t.UnixNano()}
}

// Tail reads an app's lines in the order of arrival, and waits for more. It never delays
// the writer, and misses lines only if they were dropped before it read them.
type Tail interface {
	// Next waits for lines. It fails with ctx, with ErrStopped if the store was stopped, and
	// with ErrClosed if the tail was closed or the app deleted.
	Next(ctx context.Context) (Batch, error)
	// At returns the number of the line before the next one.
	At() uint64
	// Close closes the subscription. It may be called more than once, and concurrently with
	// Next.
	Close()
}

// Batch is a sequence of consecutive lines.
type Batch struct {
	// Missed is the number of lines before the entries that were dropped before the tail
	// read them.
	Missed  uint64
	First   uint64 // number of the first entry
	Entries []platform.LogLine
}

// Last returns the number of the last line in the batch.
func (b Batch) Last() uint64 { return b.First + uint64(len(b.Entries)) - 1 }
