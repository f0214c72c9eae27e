package delivery

import (
	"context"
	"log/slog"
	"time"

	"ingot/internal/base/logging"
	"ingot/internal/base/tracing"
	"ingot/internal/notify"
)

// tracedMessages is how many messages of a send become spans, so that a send to
// everyone does not displace all other spans.
const tracedMessages = 100

var verdicts = map[notify.Verdict]string{notify.Accepted: "accepted", notify.Temporary: "temporary failure",
	notify.Permanent: "permanent failure"}

// attempted logs one attempt with the id of the request that sent the message, and
// records it as a child of the request's span. Neither contains an address.
func (d *Delivery) attempted(ctx context.Context, m *message, r notify.Result, began time.Time) {
	if d.o.Log.Enabled(ctx, slog.LevelDebug) {
		d.o.Log.DebugContext(logging.WithRequestID(ctx, m.Send.RequestID), "message attempted",
			"message", d.o.IDs.Message(m.Number), "attempt", m.Attempts+1, "result", verdicts[r.Verdict])
	}
	if d.o.Tracer == nil || m.Number&notify.MaxRecipients >= tracedMessages {
		return
	}
	send, ok := tracing.ParseTraceparent(m.Send.Trace)
	if !ok || !send.Sampled {
		return
	}
	d.o.Tracer.Record(tracing.Finished{
		SpanContext: tracing.SpanContext{Trace: send.Trace, Span: tracing.NewSpanID(), Sampled: true}, Parent: send.Span,
		Part: "notifications", Name: "deliver message", Kind: tracing.Consumer, Start: began, Duration: time.Since(began),
		Failed: r.Verdict != notify.Accepted, Failure: verdicts[r.Verdict],
		Attrs: []tracing.Attr{
			tracing.String("ingot.message.id", d.o.IDs.Message(m.Number)), tracing.Int("ingot.message.attempt", m.Attempts+1),
			tracing.String("ingot.client.id", m.Send.ClientID), tracing.String("vcap.request_id", m.Send.RequestID),
		},
	})
}
