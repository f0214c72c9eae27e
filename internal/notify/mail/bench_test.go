package mail_test

import (
	"bytes"
	"net/smtp" //nolint:depguard // beside which ours is measured
	"sync"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/compose"
	"ingot/internal/notify/mail/mailtest"
)

// BenchmarkChannel sends into a sink in the same process: both ends are
// measured.
func BenchmarkChannel(b *testing.B) {
	for name, query := range map[string]string{"1 connection": "connections=1", "8 connections": "connections=8"} {
		b.Run(name, func(b *testing.B) {
			sink := mailtest.New(b, mailtest.Options{})
			c := channel(b, sink, "", query, nil)
			all := messages("m", 1000)
			b.ResetTimer()
			for sent := 0; sent < b.N; sent += len(all) {
				batch := all[:min(len(all), b.N-sent)]
				c.Deliver(b.Context(), batch, func(i int, r notify.Result) {
					if r.Verdict != notify.Accepted {
						b.Errorf("message %d: %+v", i, r)
					}
				})
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkNetSMTP is the standard library with ready text over open
// connections.
func BenchmarkNetSMTP(b *testing.B) {
	sink := mailtest.New(b, mailtest.Options{})
	composer, err := compose.New(compose.Identity{From: "no-reply@ingot.example"})
	if err != nil {
		b.Fatal(err)
	}
	m, err := composer.Message(&messages("m", 1)[0], time.Now())
	if err != nil {
		b.Fatal(err)
	}
	text := bytes.Join([][]byte{m.Header, m.Body}, nil)
	const connections = 8
	var all sync.WaitGroup
	for n := range connections {
		all.Go(func() {
			c, err := smtp.Dial(sink.Addr())
			if err != nil {
				b.Error(err)
				return
			}
			defer c.Close()
			for range b.N/connections + min(1, max(0, b.N%connections-n)) {
				if c.Mail(m.From) != nil || c.Rcpt(m.To) != nil {
					b.Error("refused")
				}
				w, err := c.Data()
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = w.Write(text)
				if err := w.Close(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
}
