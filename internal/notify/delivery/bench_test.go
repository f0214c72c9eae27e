package delivery

import (
	"context"
	"fmt"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/mailtest"
)

// BenchmarkEveryone is a send to 20,000 users by SMTP into a sink, all in one
// process, from the request until everything is recorded; also with a backlog of
// messages that wait for their next attempt.
func BenchmarkEveryone(b *testing.B) {
	const users = 20_000
	for _, backlog := range []int{0, 200_000} {
		b.Run(fmt.Sprintf("backlog=%d", backlog), func(b *testing.B) {
			sink := mailtest.New(b, mailtest.Options{})
			w := newWorld(b, setup{people: newPeople(users), channel: newMail(b, sink.URL("", "connections=8"), time.Minute,
				time.Minute)})
			if backlog > 0 {
				putAside(b, w, backlog)
			}
			w.start()
			begun := time.Now()
			for b.Loop() {
				if got := w.finish(w.send(to(notify.ToEveryone, ""))); got.Delivered != users {
					b.Fatalf("counts are %+v, want %d delivered", got, users)
				}
			}
			b.ReportMetric(float64(b.N*users)/time.Since(begun).Seconds(), "deliveries/s")
		})
	}
}

// putAside makes messages that wait for their next attempt.
func putAside(b *testing.B, w *world, n int) {
	ctx := context.Background()
	s, _, err := w.store.Accept(ctx, notify.NewSend{Send: notify.Send{
		ClientID: "shop", KindID: "news", Audiences: []notify.Audience{{Type: notify.ToEveryone}}, Received: time.Now(),
	}})
	if err != nil {
		b.Fatal(err)
	}
	at := notify.Cursor{}
	for i := 0; i < n; i += 5000 {
		var more []notify.Recipient
		for j := range 5000 {
			more = append(more, notify.Recipient{Email: fmt.Sprintf("waiting%d@example.com", i+j)})
		}
		next := notify.Cursor{Page: fmt.Sprint(i + 5000)}
		if err := w.store.Extend(ctx, s.Number, at, more, next, i+5000 >= n); err != nil {
			b.Fatal(err)
		}
		at = next
	}
	for {
		claimed, err := w.store.Claim(ctx, "bench", 5000, time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		if len(claimed) == 0 {
			return
		}
		outcomes := make([]notify.Outcome, len(claimed))
		for i, c := range claimed {
			outcomes[i] = notify.Outcome{Number: c.Number, Status: notify.Retry, Due: time.Now().Add(time.Hour), Attempted: true,
				At: time.Now()}
		}
		if _, err := w.store.Finish(ctx, outcomes, nil); err != nil {
			b.Fatal(err)
		}
	}
}
