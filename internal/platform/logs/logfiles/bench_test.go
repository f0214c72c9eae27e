package logfiles_test

import (
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/logs/logstest"
)

var text = []byte(strings.Repeat("a log line of usual length ", 4))

func batchOf(app, stream string, n int) []platform.LogLine {
	batch := make([]platform.LogLine, n)
	for i := range batch {
		batch[i] = platform.LogLine{App: app, Time: logstest.T0, Source: "APP/PROC/WEB", Instance: "0", Text: text,
			Stream: stream}
	}
	return batch
}

// BenchmarkAppend reports lines a second, in batches of several sizes.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{1, 10, 100, 1000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			s := open(b, b.TempDir(), logfiles.Options{})
			batch := batchOf("a", "s", size)
			seq := uint64(0)
			b.SetBytes(int64(size * len(text)))
			b.ReportAllocs()
			for b.Loop() {
				for i := range batch {
					seq++
					batch[i].Seq, batch[i].Time = seq, logstest.T0.Add(time.Duration(seq))
				}
				if err := s.Append(batch...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(seq)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// BenchmarkAppendApps writes to 1000 apps from all cores, with fewer open files
// than apps.
func BenchmarkAppendApps(b *testing.B) {
	s := open(b, b.TempDir(), logfiles.Options{PerAppBytes: 1 << 20})
	for n := range 1000 {
		logstest.Add(b, s, platform.LogLine{App: "app-" + strconv.Itoa(n), Text: text})
	}
	var n, lines atomic.Uint64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		batch := batchOf("", "", 50)
		for pb.Next() {
			app := "app-" + strconv.FormatUint(n.Add(1)%1000, 10)
			for i := range batch {
				batch[i].App = app
			}
			if err := s.Append(batch...); err != nil {
				b.Error(err)
			}
			lines.Add(50)
		}
	})
	b.ReportMetric(float64(lines.Load())/b.Elapsed().Seconds(), "lines/s")
}

func BenchmarkRead(b *testing.B) {
	s := open(b, b.TempDir(), logfiles.Options{})
	for i := range 700 {
		batch := batchOf("a", "s", 100)
		for j := range batch {
			n := i*100 + j
			batch[j].Seq, batch[j].Time = uint64(n+1), logstest.T0.Add(time.Duration(n)*time.Millisecond)
		}
		logstest.Add(b, s, batch...)
	}
	newest := logstest.Meta(b, s, "a").Newest.UnixNano()
	for name, q := range map[string]logs.ReadQuery{
		"oldest1000": {Start: math.MinInt64, Limit: 1000},
		"newest1000": {Start: math.MinInt64, Limit: 1000, Descending: true},
		"poll":       {Start: newest + 1, Limit: 100},
		"middle1000": {Start: logstest.T0.Add(35 * time.Second).UnixNano(), Limit: 1000},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Read(b.Context(), "a", q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkOpen opens a store of 1000 apps, each with a full share of 1 MiB,
// and reports what an idle app costs.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	o := logfiles.Options{PerAppBytes: 1 << 20}
	s := open(b, dir, o)
	for n := range 1000 {
		app := fmt.Sprintf("app-%d", n)
		for i := range 8 {
			batch := batchOf(app, app, 1000)
			for j := range batch {
				batch[j].Seq = uint64(i*1000 + j + 1)
			}
			logstest.Add(b, s, batch...)
		}
	}
	s.Stop()
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		s, err := logfiles.Open(dir, o)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		runtime.GC()
		runtime.ReadMemStats(&after)
		s.Stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/1000, "B/app")
}
