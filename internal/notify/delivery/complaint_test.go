package delivery

import (
	"context"
	netsmtp "net/smtp" //nolint:depguard // an independent client
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/mail/dsn"
	"ingot/internal/notify/mail/mailtest"
)

// TestComplaint: who complains about a message gets no more mail, also when the complaint hides the address.
func TestComplaint(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			sink := mailtest.New(t, mailtest.Options{Keep: 10})
			w := newWorld(t, setup{db: dbtest.New(t, dialect), channel: newMail(t, sink.URL("", ""), time.Minute, time.Minute)})
			w.start()
			listener, err := dsn.New(dsn.Options{
				Addr: "127.0.0.1:0", Return: "a@example.com", Domain: "example.com",
				Bounce: func(context.Context, dsn.Bounce) (bool, error) { panic("a complaint is no bounce") },
				Complaint: func(ctx context.Context, c dsn.Complaint) (bool, error) {
					return w.service.Complained(ctx, actions.Complaint(c))
				},
			})
			testkit.Must(t, err)
			testkit.Must(t, listener.Start(t.Context()))
			t.Cleanup(listener.Stop)
			complain := func(header string) {
				t.Helper()
				report := strings.ReplaceAll(`Content-Type: multipart/report; report-type=feedback-report; boundary=b

--b
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: Loop/1
Original-Rcpt-To: <redacted@example.com>

--b
Content-Type: text/rfc822-headers

`, "\n", "\r\n") + header + "\r\n\r\n--b--\r\n"
				testkit.Must(t, netsmtp.SendMail(listener.Addr(), nil, "loop@example.com", []string{"a@example.com"},
					[]byte(report)))
			}

			if c := w.finish(w.send()); c.Delivered != 1 {
				t.Fatalf("counts are %+v", c)
			}
			header, _, _ := strings.Cut(sink.Messages()[0].Data, "\r\n\r\n")
			id := sink.Messages()[0].ID
			complain(strings.ReplaceAll(header, id, w.ids.Message(1<<40))) // about a message that was not sent
			complain(strings.ReplaceAll(header, id, "0"+id[1:]+"0"))
			if all, err := w.store.Suppressions(t.Context(), "", 10); err != nil || len(all) > 0 {
				t.Fatalf("suppressed %+v, %v, want none", all, err)
			}
			complain(header)
			all, err := w.store.Suppressions(t.Context(), "", 10)
			if err != nil || len(all) != 1 || all[0].Email != "user0@example.com" || all[0].Source != "complaint" ||
				all[0].Reason != "abuse Loop/1" {
				t.Errorf("suppressed %+v, %v", all, err)
			}
			again := w.send()
			w.finish(again)
			if m := w.message(again, 0); m.Status != notify.Undeliverable || sink.Accepted() != 1 {
				t.Errorf("the next message is %s, %d were sent", m.Status, sink.Accepted())
			}
		})
	}
}
