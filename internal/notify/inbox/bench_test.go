package inbox_test

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/notify"
	"ingot/internal/notify/inbox"
)

// BenchmarkStreams reports the memory of an open stream, including the socket of its client, which is in this process,
// and how long a change takes to arrive while all are open.
func BenchmarkStreams(b *testing.B) {
	const streams = 5000
	store := open(b, dbtest.New(b, db.SQLite))
	h := hub(b, store, inbox.Options{})
	s := served(b, h, inAnHour)
	used := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc + m.StackInuse)
	}
	first := make([]byte, 4096)
	connect := func(user string) net.Conn {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { conn.Close() })
		fmt.Fprintf(conn, "GET /%s?a HTTP/1.1\r\nHost: x\r\n\r\n", user)
		for n := 0; !bytes.Contains(first[:n], []byte("data: ")); {
			more, err := conn.Read(first[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += more
		}
		return conn
	}
	before := used()
	for i := range streams {
		connect(fmt.Sprint("u", i))
	}
	perStream := (used() - before) / streams
	conn := connect("last")
	of := notify.Owner{ClientID: "a", UserID: "/last"}
	number, worst := int64(0), time.Duration(0)
	for b.Loop() {
		number++
		began := time.Now()
		if err := store.AddNotifications(b.Context(), "a", []notify.Notification{{Number: number, Owner: of,
			Title: "t"}}); err != nil {
			b.Fatal(err)
		}
		h.Changed(of)
		if _, err := conn.Read(first); err != nil {
			b.Fatal(err)
		}
		worst = max(worst, time.Since(began))
	}
	b.ReportMetric(perStream, "B/stream")
	b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
}

// BenchmarkReadInboxes reads inboxes in which a notification arrived, one by one and as many as a worker reads at once.
func BenchmarkReadInboxes(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			store := open(b, dbtest.New(b, dialect))
			const many = 1024
			var reads []notify.InboxRead
			var number int64
			for i := range many {
				of := notify.Owner{ClientID: "a", UserID: fmt.Sprint("u", i)}
				var all []notify.Notification
				for range 20 {
					number++
					all = append(all, notify.Notification{Number: number, Owner: of, Title: "t", Text: "text"})
				}
				if err := store.AddNotifications(b.Context(), "a", all); err != nil {
					b.Fatal(err)
				}
				reads = append(reads, notify.InboxRead{Owner: of, After: 19})
			}
			for _, once := range []int{1, 64} {
				b.Run(fmt.Sprint(once), func(b *testing.B) {
					i := 0
					for b.Loop() {
						all, err := store.ReadInboxes(b.Context(), reads[i:i+once], 51)
						if err != nil || len(all[once-1].Changed) != 1 {
							b.Fatal(all, err)
						}
						i = (i + once) % many
					}
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*once), "us/inbox")
				})
			}
		})
	}
}
