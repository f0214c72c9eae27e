package logfiles_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

// onlySoak is the beginning of the long forms of tests.
func onlySoak(t *testing.T) {
	t.Helper()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
}

// feed writes lines of one process at a rate, in batches as a pump has them,
// and returns how many it wrote.
func feed(t testing.TB, s *logfiles.Store, app string, rate int, d time.Duration) (lines int) {
	const beat = 10 * time.Millisecond
	tick := time.NewTicker(beat)
	defer tick.Stop()
	total := int(float64(rate) * d.Seconds())
	began := time.Now()
	var batch []platform.LogLine
	for lines < total {
		<-tick.C
		due := min(total, int(time.Since(began).Seconds()*float64(rate)))
		batch = batch[:0]
		for ; lines < due; lines++ {
			batch = append(batch, platform.LogLine{
				App: app, Time: time.Now(), Source: "APP/PROC/WEB", Instance: "0", Stream: "s-" + app, Seq: uint64(lines + 1),
				Text: fmt.Appendf(nil, "%s says %08d and some more words to have the usual length of a line", app, lines+1),
			})
		}
		for part := range slices.Chunk(batch, 512) {
			if err := s.Append(part...); err != nil {
				t.Error(err)
				return lines
			}
		}
	}
	return lines
}

// Ten apps write 50,000 lines a second together: none is lost, each process's
// order is kept, readers that keep up see all, and what is read afterwards as
// cf logs --recent does is the end of it.
func TestTenBusyApps(t *testing.T) {
	t.Parallel()
	tenBusyApps(t, time.Second)
}

// TestSoakTenBusyApps is TestTenBusyApps for as long as users were promised.
func TestSoakTenBusyApps(t *testing.T) { //nolint:paralleltest // it wants the machine for itself
	onlySoak(t)
	tenBusyApps(t, 30*time.Second)
}

func tenBusyApps(t *testing.T, d time.Duration) {
	t.Helper()
	const apps, rate = 10, 5000
	s := open(t, t.TempDir(), logfiles.Options{})
	var writers, readers sync.WaitGroup
	for n := range apps {
		app := "app-" + strconv.Itoa(n)
		tail := logstest.Tail(t, s, app, logs.After(0))
		total := uint64(float64(rate) * d.Seconds())
		writers.Go(func() {
			if lines := feed(t, s, app, rate, d); uint64(lines) != total {
				t.Errorf("%s wrote %d of %d", app, lines, total)
			}
		})
		readers.Go(func() {
			for last := uint64(0); last < total; {
				b, err := tail.Next(t.Context())
				if err != nil || b.Missed > 0 {
					t.Errorf("%s: %d missed after %d, %v", app, b.Missed, last, err)
					return
				}
				for _, e := range b.Entries {
					if e.Seq != last+1 {
						t.Errorf("%s: %d after %d", app, e.Seq, last)
						return
					}
					last++
				}
			}
		})
	}
	began := time.Now()
	writers.Wait()
	t.Logf("%d lines in %v", apps*int(float64(rate)*d.Seconds()), time.Since(began).Round(time.Millisecond))
	readers.Wait()
	for n := range apps {
		app := "app-" + strconv.Itoa(n)
		total := uint64(float64(rate) * d.Seconds())
		recent := logstest.Read(t, s, app, logs.ReadQuery{Limit: 1000, Descending: true})
		slices.Reverse(recent)
		if len(recent) != 1000 || recent[999].Seq != total {
			t.Fatalf("%s: %d recent lines, the last is %d", app, len(recent), recent[len(recent)-1].Seq)
		}
		for i, e := range recent {
			if e.Seq != total-999+uint64(i) || !strings.Contains(string(e.Text), fmt.Sprintf("%s says %08d ", app, e.Seq)) {
				t.Fatalf("%s: recent line %d is %d %s", app, i, e.Seq, e.Text)
			}
		}
		if m := logstest.Meta(t, s, app); m.Count+m.Expired != total || m.Lost != 0 {
			t.Errorf("%s: meta is %+v, want %d lines in all and none lost", app, m, total)
		}
	}
}

// An app that writes without end does not keep another from writing and being
// read: all lines of the quiet one come, in order, with nothing missed.
func TestNoisyNeighbour(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir(), logfiles.Options{PerAppBytes: 1 << 20, TotalBytes: 2 << 20})
	ctx, cancel := context.WithCancel(t.Context())
	var noise sync.WaitGroup
	for n := range 4 {
		noise.Go(func() {
			batch := batchOf("noisy", "noise-"+strconv.Itoa(n), 500)
			for seq := uint64(0); ctx.Err() == nil; {
				for i := range batch {
					seq++
					batch[i].Seq, batch[i].Time = seq, time.Now()
				}
				if err := s.Append(batch...); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	tail := logstest.Tail(t, s, "quiet", logs.After(0))
	for i := range 300 {
		logstest.Add(t, s, logstest.Line("quiet", "q", uint64(i+1), time.Now(), strconv.Itoa(i)))
		if b := logstest.Next(t, tail); b.Missed != 0 || len(b.Entries) != 1 || string(b.Entries[0].Text) != strconv.Itoa(i) {
			t.Fatalf("%+v, want %d", b, i)
		}
	}
	cancel()
	noise.Wait()
	if m := logstest.Meta(t, s, "quiet"); m.Count != 300 || m.Expired != 0 {
		t.Errorf("meta is %+v, want 300 lines and none expired", m)
	}
	if n := s.Totals().Bytes; n > 2<<20 {
		t.Errorf("%d bytes on disk", n)
	}
}

// A thousand apps that write all they can stay inside the bounds of disk and
// memory, and each keeps its newest lines. These are fewer, and so are the bounds.
func TestThousandNoisyApps(t *testing.T) { //nolint:paralleltest // the heap is measured, which must be its own
	noisyApps(t, 200, 8, logfiles.Options{PerAppBytes: 1 << 20, TotalBytes: 16 << 20, OpenFiles: 64})
}

// TestSoakThousandNoisyApps writes many times what fits.
func TestSoakThousandNoisyApps(t *testing.T) { //nolint:paralleltest // as above
	onlySoak(t)
	noisyApps(t, 1000, 100, logfiles.Options{TotalBytes: 512 << 20})
}

// noisyHeap is what a store may hold in memory for a thousand apps.
const noisyHeap = 64 << 20

func noisyApps(t *testing.T, apps, rounds int, o logfiles.Options) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, o)
	before := heap()
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for round := range rounds {
				for n := w; n < apps; n += 4 {
					app := "app-" + strconv.Itoa(n)
					batch := batchOf(app, app, 200)
					for i := range batch {
						batch[i].Seq, batch[i].Time = uint64(round*200+i+1), time.Now()
					}
					if err := s.Append(batch...); err != nil {
						t.Error(err)
						return
					}
				}
				if n := s.Totals().Bytes; n > o.TotalBytes {
					t.Errorf("%d bytes on disk in round %d", n, round)
				}
			}
		})
	}
	writers.Wait()
	grown := int64(heap()) - int64(before)
	t.Logf("%d apps: %d bytes on disk, %d bytes of heap an app", apps, diskUse(t, dir), grown/int64(apps))
	if grown > noisyHeap*int64(apps)/1000 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	if size := diskUse(t, dir); size > o.TotalBytes || size != s.Totals().Bytes {
		t.Errorf("%d bytes on disk, %d counted, %d permitted", size, s.Totals().Bytes, o.TotalBytes)
	}
	for n := range apps {
		app := "app-" + strconv.Itoa(n)
		got := logstest.Read(t, s, app, logs.ReadQuery{Limit: 100, Descending: true})
		if len(got) != 100 || got[0].Seq != uint64(rounds*200) {
			t.Fatalf("%s has %d lines", app, len(got))
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
