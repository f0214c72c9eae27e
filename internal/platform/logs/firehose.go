package logs

import (
	"context"
	"encoding/binary"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/coder/websocket"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/platform"
)

// The API of Cloud Foundry's traffic controller, for nozzles and clients that do not know
// log-cache: WebSockets with an envelope of the dropsonde protocol in each message.

// firehose sends the lines and gauges of all apps. Readers with the same id share them.
func (a *api) firehose(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	if id == "" {
		return fault.New(fault.NotFound, "Firehose subscription id missing")
	}
	return a.sendDropsonde(w, r, streamOptions{log: true, gauge: true, shard: "firehose " + id})
}

// appStream sends the lines and gauges of one app.
func (a *api) appStream(w http.ResponseWriter, r *http.Request) error {
	app, err := a.source(r)
	if err != nil {
		return err
	}
	if app == "" {
		return fault.New(fault.NotFound, "App not found")
	}
	return a.sendDropsonde(w, r, streamOptions{log: true, gauge: true, apps: []string{app}})
}

func (a *api) sendDropsonde(w http.ResponseWriter, r *http.Request, q streamOptions) error {
	if r.ProtoMajor != 1 || r.Header.Get("Upgrade") == "" {
		return fault.New(fault.BadRequest, "This is a WebSocket: the request needs the header 'Upgrade: websocket'.")
	}
	claims := token.FromContext(r.Context())
	hose, leave, err := a.openHose(claims, q)
	if err != nil {
		return err
	}
	defer leave()
	control := http.NewResponseController(w)
	_, _ = control.SetReadDeadline(time.Time{}), control.SetWriteDeadline(time.Time{})
	// The token is in a header, which no page of another site can send: the origin does
	// not matter. Nozzles send a made-up one.
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return nil //nolint:nilerr // Accept has responded
	}
	defer func() { _ = c.CloseNow() }()
	ctx, cancel := context.WithDeadline(c.CloseRead(r.Context()), time.Unix(claims.ExpiresAt, 0))
	defer cancel()
	stop := background.OnDone(web.Closing(r.Context()), "firehose", cancel)
	defer stop()
	reason := a.pumpDropsonde(ctx, &dropsondeWriter{api: a, conn: c, want: q}, hose)
	_ = c.Close(websocket.StatusGoingAway, reason)
	return nil
}

// pumpDropsonde sends until the reader disconnects or may no longer read, and returns why
// it ended.
func (a *api) pumpDropsonde(ctx context.Context, p *dropsondeWriter, hose *Hose) string {
	checked, measured, sent := time.Now(), time.Time{}, time.Now()
	for {
		now := time.Now()
		if now.Sub(measured) >= gaugeEvery {
			measured = now
			gauges, err := a.access.Gauges(ctx, p.want.apps)
			if err == nil && p.gauges(ctx, gauges) != nil {
				return "the reader is gone"
			}
		}
		waiting, done := context.WithDeadline(ctx, measured.Add(gaugeEvery))
		entries, dropped, err := hose.Next(waiting)
		done()
		if time.Since(checked) >= recheck {
			checked = time.Now()
			if may, err := a.mayStream(ctx, p.want.apps); err == nil && !may {
				return "you may no longer read these logs"
			}
		}
		switch {
		case err == nil:
			sent = time.Now()
			err = p.lines(ctx, entries, dropped)
		case ctx.Err() != nil:
			return "the access token has expired, or the server stops"
		case time.Since(sent) >= beatEvery:
			sent = time.Now()
			err = p.conn.Ping(ctx)
		default:
			err = nil
		}
		if err != nil {
			return "the reader is gone"
		}
	}
}

// dropsondeWriter writes envelopes to one reader.
type dropsondeWriter struct {
	api  *api
	conn *websocket.Conn
	want streamOptions
	buf  []byte
}

func (p *dropsondeWriter) send(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, writePatience)
	defer cancel()
	return p.conn.Write(ctx, websocket.MessageBinary, p.buf)
}

func (p *dropsondeWriter) lines(ctx context.Context, entries []platform.LogLine, dropped uint64) error {
	if dropped > 0 {
		n := strconv.FormatUint(dropped, 10)
		e := platform.LogLine{Time: time.Now(), Source: SourceLogs, Instance: "0", Stderr: true,
			Tags: map[string]string{"missed": n},
			Text: []byte(n + " lines are not in this stream: its reader was too slow")}
		if len(p.want.apps) == 1 {
			e.App = p.want.apps[0]
		}
		entries = append(slices.Clone(entries), e)
	}
	abouts := map[string]*About{}
	for i := range entries {
		e := &entries[i]
		if _, known := abouts[e.App]; !known {
			abouts[e.App] = p.api.access.About(ctx, e.App)
		}
		p.buf = appendDropsondeLine(p.buf[:0], e, Tags(e, abouts[e.App]))
		if err := p.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (p *dropsondeWriter) gauges(ctx context.Context, all []Gauge) error {
	for i := range all {
		p.buf = appendDropsondeGauge(p.buf[:0], &all[i], gaugeTags(&all[i], p.api.access.About(ctx, all[i].App)))
		if err := p.send(ctx); err != nil {
			return err
		}
	}
	return nil
}

// The types of dropsonde's envelopes.
const (
	dropsondeLine   = 5
	dropsondeMetric = 9
)

// appendDropsondeLine appends the envelope of a line. The numbers are those of the fields
// in dropsonde's protocol buffers.
func appendDropsondeLine(b []byte, e *platform.LogLine, tags map[string]string) []byte {
	kind := uint64(1)
	if e.Stderr {
		kind = 2
	}
	var m []byte
	m = appendBytes(m, 1, e.Text)
	m = appendNumber(m, 2, kind)
	m = appendNumber(m, 3, uint64(e.Time.UnixNano())) //nolint:gosec // as protocol buffers encode it
	m = appendText(m, 4, e.App)
	m = appendText(m, 5, e.Source)
	m = appendText(m, 6, e.Instance)
	b = appendDropsonde(b, dropsondeLine, e.Time, tags)
	return appendBytes(b, 8, m)
}

func appendDropsondeGauge(b []byte, g *Gauge, tags map[string]string) []byte {
	var m []byte
	m = appendText(m, 1, g.App)
	m = appendNumber(m, 2, uint64(max(g.Index, 0)))
	m = binary.AppendUvarint(m, 3<<3|1)
	m = binary.LittleEndian.AppendUint64(m, math.Float64bits(g.Metrics["cpu"].Value))
	for i, name := range []string{"memory", "disk", "memory_quota", "disk_quota"} {
		m = appendNumber(m, 4+i, uint64(max(g.Metrics[name].Value, 0)))
	}
	b = appendDropsonde(b, dropsondeMetric, g.Time, tags)
	return appendBytes(b, 12, m)
}

// appendDropsonde appends the common fields of an envelope.
func appendDropsonde(b []byte, kind uint64, at time.Time, tags map[string]string) []byte {
	b = appendText(b, 1, tags["origin"])
	b = appendNumber(b, 2, kind)
	b = appendNumber(b, 6, uint64(at.UnixNano())) //nolint:gosec // as protocol buffers encode it
	for number, name := range map[int]string{13: "deployment", 14: "job", 15: "index", 16: "ip"} {
		b = appendText(b, number, tags[name])
	}
	for name, value := range tags {
		b = appendBytes(b, 17, appendText(appendText(nil, 1, name), 2, value))
	}
	return b
}

func appendNumber(b []byte, field int, n uint64) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(field)<<3), n) //nolint:gosec // a constant
}

func appendText(b []byte, field int, s string) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|2) //nolint:gosec // a constant
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBytes(b []byte, field int, s []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<3|2) //nolint:gosec // a constant
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}
