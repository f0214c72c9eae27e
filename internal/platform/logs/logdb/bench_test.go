package logdb_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/platform/logs/logfiles"
)

// BenchmarkStores compares the stores: each app writes lines of 143 bytes as fast as they
// are stored, in batches. It reports lines a second, and how long an Append takes. With
// PostgreSQL there are three servers; "flush" stores without a pause between flushes, as
// the design was measured.
func BenchmarkStores(b *testing.B) {
	for _, load := range []struct{ apps, lines int }{{50, 10}, {50, 100}, {200, 10}, {200, 50}} {
		name := fmt.Sprintf("%dx%d", load.apps, load.lines)
		b.Run("files/"+name, func(b *testing.B) {
			s, err := logfiles.Open(b.TempDir(), logfiles.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(s.Stop)
			writeAll(b, []logs.Store{s}, load.apps, load.lines)
		})
		for kind, every := range map[string]time.Duration{"postgres": 0, "postgres-flush": time.Microsecond} {
			b.Run(kind+"/"+name, func(b *testing.B) {
				url := dbtest.URL(b, db.Postgres)
				var servers []logs.Store
				for range 3 {
					s, err := logdb.Open(b.Context(), dbtest.Open(b, url), logdb.Options{FlushEvery: every})
					if err != nil {
						b.Fatal(err)
					}
					b.Cleanup(s.Stop)
					servers = append(servers, s)
				}
				writeAll(b, servers, load.apps, load.lines)
			})
		}
	}
}

// writeAll lets each app write a batch per iteration.
func writeAll(b *testing.B, servers []logs.Store, apps, lines int) {
	b.Helper()
	text := []byte(strings.Repeat("a log line of usual length 0123456789 ", 4)[:143])
	var mu sync.Mutex
	var took []time.Duration
	var writers sync.WaitGroup
	n := b.N
	b.ResetTimer()
	for app := range apps {
		writers.Go(func() {
			name := "app-" + strconv.Itoa(app)
			batch := make([]platform.LogLine, lines)
			var own []time.Duration
			for i := range n {
				for j := range batch {
					batch[j] = platform.LogLine{
						App: name, Time: time.Now(), Source: "APP/PROC/WEB", Instance: "0", Stream: name, Seq: uint64(i*lines + j + 1),
						Text: append([]byte(strconv.Itoa(i*lines+j)), text...),
					}
				}
				began := time.Now()
				if err := servers[app%len(servers)].Append(batch...); err != nil {
					b.Error(err)
					return
				}
				own = append(own, time.Since(began))
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	writers.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(n*apps*lines)/b.Elapsed().Seconds(), "lines/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}
