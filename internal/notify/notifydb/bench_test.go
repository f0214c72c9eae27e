//go:build unix

package notifydb_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb"
)

// benchEach runs f on both databases.
func benchEach(b *testing.B, f func(b *testing.B, d *db.DB, s *notifydb.Store)) {
	b.Helper()
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			d, err := db.Open(b.Context(), db.Options{URL: dbtest.URL(b, dialect), Keys: dbtest.Keys(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { d.Close() }) //nolint:errcheck // the database is thrown away
			s, err := notifydb.Open(b.Context(), d, notifydb.Options{QueueLimit: 10_000_000})
			if err != nil {
				b.Fatal(err)
			}
			f(b, d, s)
		})
	}
}

func single(i int64) notify.NewSend {
	return notify.NewSend{
		Send: notify.Send{
			ClientID: "client", KindID: "kind", KindDescription: "A kind", SourceDescription: "A client",
			Audiences: []notify.Audience{{Type: notify.ToUser, ID: guid(i)}},
			Content: notify.Content{Subject: "Hello", Text: "Some text that is not very long, as most are.",
				HTML: "<p>Some text</p>"},
			Received: time.Now(), Expanded: true,
		},
		Recipients: []notify.Recipient{{UserID: guid(i)}},
	}
}

// guid spreads numbers as random ids would be.
func guid(i int64) string {
	x := uint64(i) * 0x9e3779b97f4a7c15
	return fmt.Sprintf("%08x-%04x-4000-8000-%012x", x>>32, x>>16&0xffff, i)
}

func persons(from int64, n int) []notify.Recipient {
	list := make([]notify.Recipient, n)
	for i := range list {
		list[i] = notify.Recipient{UserID: guid(from + int64(i)), Email: fmt.Sprintf("user-%d@example.com", from+int64(i))}
	}
	return list
}

// rate reports how many were done a second.
func rate(b *testing.B, n int64, what string) {
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), what+"/s")
}

// BenchmarkAccept is single sends from 32 callers.
func BenchmarkAccept(b *testing.B) {
	benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
		var next atomic.Int64
		var worst atomic.Int64
		b.ResetTimer()
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				for {
					i := next.Add(1)
					if i > int64(b.N) {
						return
					}
					began := time.Now()
					if _, _, err := s.Accept(b.Context(), single(i)); err != nil {
						b.Error(err)
						return
					}
					took := int64(time.Since(began))
					for old := worst.Load(); took > old && !worst.CompareAndSwap(old, took); old = worst.Load() {
					}
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		rate(b, int64(b.N), "sends")
		b.ReportMetric(float64(worst.Load())/1e6, "worst-ms")
	})
}

// grow makes a send of n recipients.
func grow(b *testing.B, s *notifydb.Store, n, chunk int) int64 {
	b.Helper()
	large := single(0)
	large.Recipients, large.Expanded, large.Audiences = nil, false, []notify.Audience{{Type: notify.ToEveryone}}
	send, _, err := s.Accept(b.Context(), large)
	if err != nil {
		b.Fatal(err)
	}
	from := notify.Cursor{}
	for done := 0; done < n; {
		size := min(chunk, n-done)
		to := notify.Cursor{Page: fmt.Sprint(done + size)}
		if err := s.Extend(b.Context(), send.Number, from, persons(int64(done), size), to, done+size == n); err != nil {
			b.Fatal(err)
		}
		done += size
		from = to
	}
	return send.Number
}

// BenchmarkExtend is one large audience.
func BenchmarkExtend(b *testing.B) {
	for _, chunk := range []int{1000, 5000} {
		b.Run(fmt.Sprint(chunk), func(b *testing.B) {
			benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
				b.ResetTimer()
				grow(b, s, b.N, chunk)
				b.StopTimer()
				rate(b, int64(b.N), "recipients")
			})
		})
	}
}

// work claims and finishes what is there with some workers.
func work(b *testing.B, s *notifydb.Store, workers, total int) {
	b.Helper()
	var done atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			owner := fmt.Sprint("w", w)
			for done.Load() < int64(total) {
				list, err := s.Claim(b.Context(), owner, 500, time.Minute)
				if err != nil {
					b.Error(err)
					return
				}
				if len(list) == 0 {
					return
				}
				outcomes := make([]notify.Outcome, len(list))
				for i, c := range list {
					outcomes[i] = notify.Outcome{Number: c.Number, Status: notify.Delivered, Attempted: true, At: time.Now(),
						Email: "user@example.com"}
				}
				if _, err := s.Finish(b.Context(), outcomes, nil); err != nil {
					b.Error(err)
					return
				}
				done.Add(int64(len(list)))
			}
		})
	}
	wg.Wait()
	if done.Load() != int64(total) {
		b.Errorf("%d of %d", done.Load(), total)
	}
}

// BenchmarkDeliver is claims and finishes of one large send.
func BenchmarkDeliver(b *testing.B) {
	for _, workers := range []int{1, 4} {
		b.Run(fmt.Sprint("workers=", workers), func(b *testing.B) {
			benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
				grow(b, s, b.N, 5000)
				b.ResetTimer()
				work(b, s, workers, b.N)
				b.StopTimer()
				rate(b, int64(b.N), "messages")
			})
		})
	}
}

// BenchmarkDeliverSingle is claims and finishes of sends to one.
func BenchmarkDeliverSingle(b *testing.B) {
	benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
					if _, _, err := s.Accept(b.Context(), single(i)); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.ResetTimer()
		work(b, s, 4, b.N)
		b.StopTimer()
		rate(b, int64(b.N), "messages")
	})
}

// BenchmarkDeliverBacklog is BenchmarkDeliver beside many retries that are not
// due: 100,000, or a million with INGOT_SOAK=1.
func BenchmarkDeliverBacklog(b *testing.B) {
	backlog := 100_000
	if os.Getenv("INGOT_SOAK") == "1" {
		backlog = 1_000_000
	}
	benchEach(b, func(b *testing.B, d *db.DB, s *notifydb.Store) {
		grow(b, s, backlog, 5000)
		err := d.Update(b.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("UPDATE notify_messages SET status = 1, lane = 2, due = ?", db.Nanos(time.Now().Add(time.Hour)))
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		grow(b, s, b.N, 5000)
		b.ResetTimer()
		work(b, s, 4, b.N)
		b.StopTimer()
		rate(b, int64(b.N), "messages")
	})
}

// BenchmarkSchedule is how long the start of scheduled sends takes that are due at the same time.
func BenchmarkSchedule(b *testing.B) {
	benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
		schedule(b, s, b.N, time.Now())
		b.ResetTimer()
		for started := 0; started < b.N; {
			n, _, err := s.Activate(b.Context(), 1000)
			if err != nil {
				b.Fatal(err)
			}
			started += n
		}
		b.StopTimer()
		rate(b, int64(b.N), "sends")
	})
}

// BenchmarkAcceptBesideSchedule is BenchmarkAccept, claims and finishes beside a schedule of 100,000 sends that are
// not due, or a million with INGOT_SOAK=1.
func BenchmarkAcceptBesideSchedule(b *testing.B) {
	size := 100_000
	if os.Getenv("INGOT_SOAK") == "1" {
		size = 1_000_000
	}
	benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
		for _, scheduled := range []int{0, size} {
			b.Run(fmt.Sprint(scheduled), func(b *testing.B) {
				schedule(b, s, scheduled, time.Now().Add(time.Hour))
				b.ResetTimer()
				var wg sync.WaitGroup
				var next atomic.Int64
				for range 32 {
					wg.Go(func() {
						for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
							if _, _, err := s.Accept(b.Context(), single(i)); err != nil {
								b.Error(err)
								return
							}
							if _, _, err := s.Activate(b.Context(), 1000); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				work(b, s, 4, b.N)
				b.StopTimer()
				rate(b, int64(b.N), "sends")
			})
		}
	})
}

// schedule stores sends to one user each that are due at a time.
func schedule(b *testing.B, s *notifydb.Store, n int, at time.Time) {
	b.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 128 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				send := single(i)
				send.SendAt, send.Planned, send.Recipients, send.Expanded = at, 1, nil, false
				send.Audiences = []notify.Audience{{Type: notify.ToUser, ID: fmt.Sprint("u", i)}}
				if _, _, err := s.Accept(b.Context(), send); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkDigests ends digests whose entries are in many lists with data.
func BenchmarkDigests(b *testing.B) {
	benchEach(b, func(b *testing.B, _ *db.DB, s *notifydb.Store) {
		entries := 0
		for b.Loop() {
			b.StopTimer()
			collectLists(b, s, 20, 2*notify.ListBlock)
			b.StartTimer()
			entries += endAll(b, s)
		}
		rate(b, int64(entries), "entries")
	})
}

// collectLists sends to lists of the same users and collects the messages, in digests that are full then.
func collectLists(tb testing.TB, s *notifydb.Store, lists, users int) {
	tb.Helper()
	ctx := tb.Context()
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	rule := &notify.DigestRule{Window: notify.Delay(time.Hour), Max: lists}
	for range lists {
		id := rand.Text()
		must(s.CreateList(ctx, "client", id))
		n := single(0)
		n.DigestRule, n.Planned = rule, users
		n.Audiences, n.Recipients = []notify.Audience{{Type: notify.ToList, ID: id}}, nil
		for first := 0; first < users; first += notify.ListBlock {
			block := make([]notify.Member, min(notify.ListBlock, users-first))
			for i := range block {
				block[i] = notify.Member{UserID: guid(int64(first + i)),
					Data: json.RawMessage(fmt.Sprintf(`{"author":"Dora %d","place":%d}`, i, i))}
				n.Recipients = append(n.Recipients, notify.Recipient{UserID: block[i].UserID, Audience: first + i})
			}
			must(s.AddToList(ctx, "client", id, first, block))
		}
		_, _, err := s.Accept(ctx, n)
		must(err)
		for left := users; left > 0; {
			claimed, err := s.Claim(ctx, "owner", 500, time.Minute, notify.Email)
			must(err)
			outcomes := make([]notify.Outcome, len(claimed))
			for i, c := range claimed {
				outcomes[i] = notify.Outcome{Number: c.Number, Status: notify.Queued, At: time.Now(),
					Entry: &notify.Entry{Rule: rule}}
				if c.Send.Digest != nil { // of an earlier round
					outcomes[i] = notify.Outcome{Number: c.Number, Status: notify.Delivered, At: time.Now()}
					left++
				}
			}
			_, err = s.Finish(ctx, outcomes, nil)
			must(err)
			left -= len(claimed)
		}
	}
}

// endAll ends all digests that are full, and returns how many entries they have.
func endAll(tb testing.TB, s *notifydb.Store) (entries int) {
	tb.Helper()
	for {
		closed, err := s.CloseDigests(tb.Context(), 100, func(c notify.Content) string { return c.Text })
		if err != nil {
			tb.Fatal(err)
		}
		if closed.Digests == 0 {
			return entries
		}
		entries += closed.Entries
	}
}
