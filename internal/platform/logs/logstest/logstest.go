package logstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

// T0 is the time of the first line in most tests.
var T0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// Options limit the stores of the suite.
type Options struct{ PerAppBytes, TotalBytes int64 }

// Location is where stores keep their lines: a folder, a database.
type Location struct {
	// Open opens a store, which is not started. It may be called again after the store was
	// stopped.
	Open func(o Options) (logs.Store, error)
	// Settle does the housekeeping of a store now: afterwards it is within its limits.
	Settle func(s logs.Store) error
	// Break makes writing of the app "a" fail until it is mended.
	Break func() (mend func(), err error)
	// Environment tells another process of this test program where the location is; see
	// WriteForever.
	Environment []string
}

// Run runs the suite. location returns a new, empty location.
func Run(t *testing.T, location func(t *testing.T) Location) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(s *suite)
	}{
		{"Contract", testContract},
		{"LinesSurvive", testLinesSurvive},
		{"ReadRanges", testReadRanges},
		{"Order", testOrder},
		{"TimesAreBelievable", testTimesAreBelievable},
		{"ShareIsKept", testShareIsKept},
		{"ForgottenAtOnce", testForgottenAtOnce},
		{"TotalIsKept", testTotalIsKept},
		{"LargeBatch", testLargeBatch},
		{"Refusals", testRefusals},
		{"ManyStreams", testManyStreams},
		{"FailedWrite", testFailedWrite},
		{"DeleteApp", testDeleteApp},
		{"Losses", testLosses},
		{"LossesAreReported", testLossesAreReported},
		{"Concurrent", testConcurrent},
		{"Tail", testTail},
		{"TailIsLate", testTailIsLate},
		{"TailContinues", testTailContinues},
		{"TailStarts", testTailStarts},
		{"Hose", testHose},
		{"Kill", testKill},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(&suite{T: t, at: location(t)})
		})
	}
}

type suite struct {
	*testing.T
	at Location
}

func (s *suite) open(o Options) logs.Store {
	s.Helper()
	store, err := s.at.Open(o)
	testkit.Must(s, err)
	s.Cleanup(store.Stop)
	return store
}

func (s *suite) settle(store logs.Store) {
	s.Helper()
	testkit.Must(s, s.at.Settle(store))
}

// Line returns a line of a web process.
func Line(app, stream string, seq uint64, at time.Time, text string) platform.LogLine {
	return platform.LogLine{App: app, Time: at, Source: "APP/PROC/WEB", Instance: "0", Text: []byte(text),
		Stream: stream, Seq: seq}
}

// Add appends lines.
func Add(t testing.TB, s logs.Store, lines ...platform.LogLine) {
	t.Helper()
	testkit.Must(t, s.Append(lines...))
}

// Fill appends lines numbered from..to-1 in batches of odd sizes.
func Fill(t testing.TB, s logs.Store, app string, from, to int) {
	t.Helper()
	for from < to {
		var batch []platform.LogLine
		for range 1 + rand.IntN(97) {
			if from == to {
				break
			}
			batch = append(batch, Line(app, "s-"+app, uint64(from+1), T0, fmt.Sprintf("%040d", from)))
			from++
		}
		Add(t, s, batch...)
	}
}

// Read reads lines by time.
func Read(t testing.TB, s logs.Store, app string, q logs.ReadQuery) []platform.LogLine {
	t.Helper()
	got, err := s.Read(t.Context(), app, q)
	testkit.Must(t, err)
	return got
}

// ReadAll reads as the cf client does: on from the last time plus 1 ns.
func ReadAll(t testing.TB, s logs.Store, app string, limit int) []platform.LogLine {
	t.Helper()
	var all []platform.LogLine
	start := int64(math.MinInt64)
	for {
		page := Read(t, s, app, logs.ReadQuery{Start: start, Limit: limit})
		if len(page) == 0 {
			return all
		}
		all = append(all, page...)
		start = page[len(page)-1].Time.UnixNano() + 1
	}
}

// Meta returns the metadata of an app's log.
func Meta(t testing.TB, s logs.Store, app string) logs.Meta {
	t.Helper()
	all, err := s.Meta(t.Context())
	testkit.Must(t, err)
	return all[app]
}

// Texts returns the texts of lines.
func Texts(lines []platform.LogLine) []string {
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = string(l.Text)
	}
	return out
}

// Tail opens a tail until the end of the test.
func Tail(t testing.TB, s logs.Store, app string, from logs.Start) logs.Tail {
	t.Helper()
	tail, err := s.Tail(app, from)
	testkit.Must(t, err)
	t.Cleanup(tail.Close)
	return tail
}

// Next waits for the next batch of a tail.
func Next(t testing.TB, tail logs.Tail) logs.Batch {
	t.Helper()
	b, err := tail.Next(t.Context())
	testkit.Must(t, err)
	return b
}
