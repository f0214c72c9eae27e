package logging

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// New returns a logger that writes to w: readable lines if human is true, JSON
// otherwise.
func New(w io.Writer, human bool, level slog.Leveler) *slog.Logger {
	var h slog.Handler
	if human {
		h = &humanHandler{w: w, level: level, mu: &sync.Mutex{}}
	} else {
		h = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr { return redact(a) }})
	}
	return slog.New(contextHandler{h})
}

type contextKey struct{}

// With returns ctx with an attribute that is added to every line logged with
// it.
func With(ctx context.Context, key, value string) context.Context {
	old, _ := ctx.Value(contextKey{}).([]slog.Attr)
	attrs := make([]slog.Attr, len(old), len(old)+1)
	copy(attrs, old)
	return context.WithValue(ctx, contextKey{}, append(attrs, slog.String(key, value)))
}

// requestIDKey is the attribute with the id of a request.
const requestIDKey = "request_id"

// WithRequestID returns ctx with the id of the request that caused the work, which is in
// every line logged with it; ctx itself if the id is empty.
func WithRequestID(ctx context.Context, id string) context.Context {
	if id == "" {
		return ctx
	}
	return With(ctx, requestIDKey, id)
}

// RequestID returns the id that WithRequestID has set, "" if there is none.
func RequestID(ctx context.Context) string {
	attrs, _ := ctx.Value(contextKey{}).([]slog.Attr)
	for i := len(attrs) - 1; i >= 0; i-- {
		if attrs[i].Key == requestIDKey {
			return attrs[i].Value.String()
		}
	}
	return ""
}

// contextHandler adds the attributes of the context.
type contextHandler struct{ slog.Handler }

func (h contextHandler) Handle(ctx context.Context, r slog.Record) error {
	if attrs, ok := ctx.Value(contextKey{}).([]slog.Attr); ok {
		r = r.Clone()
		r.AddAttrs(attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

func (h contextHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return contextHandler{h.Handler.WithAttrs(a)}
}
func (h contextHandler) WithGroup(n string) slog.Handler {
	return contextHandler{h.Handler.WithGroup(n)}
}

// secretKeys are attribute names whose values are always redacted. This is a
// safety net: callers must not log secrets in the first place.
var secretKeys = []string{"password", "secret", "token", "authorization", "credentials", "cookie", "passcode"}

func redact(a slog.Attr) slog.Attr {
	key := strings.ToLower(a.Key)
	for _, s := range secretKeys {
		if strings.Contains(key, s) {
			return slog.String(a.Key, "[redacted]")
		}
	}
	return a
}

// humanHandler writes "15:04:05 INFO  message key=value".
type humanHandler struct {
	w      io.Writer
	level  slog.Leveler
	mu     *sync.Mutex
	attrs  []slog.Attr
	prefix string
}

func (h *humanHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

func (h *humanHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	fmt.Fprintf(&b, "%s %-5s %s", at.Format("15:04:05"), r.Level, r.Message)
	for _, a := range h.attrs {
		h.write(&b, "", a)
	}
	r.Attrs(func(a slog.Attr) bool {
		h.write(&b, h.prefix, a)
		return true
	})
	b.WriteByte('\n')
	h.mu.Lock()
	defer h.mu.Unlock()
	_, err := io.WriteString(h.w, b.String())
	return err
}

func (h *humanHandler) write(b *strings.Builder, prefix string, a slog.Attr) {
	a = redact(a)
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, member := range v.Group() {
			h.write(b, prefix+a.Key+".", member)
		}
		return
	}
	text := v.String()
	// Line breaks and control characters must not forge another line.
	if text == "" || strings.ContainsFunc(text, func(c rune) bool {
		return c < ' ' || c == '"' || c == ' ' ||
			c == 0x7f
	}) {
		text = fmt.Sprintf("%q", text)
	}
	b.WriteByte(' ')
	b.WriteString(prefix + a.Key)
	b.WriteByte('=')
	b.WriteString(text)
}

func (h *humanHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.attrs = append([]slog.Attr{}, h.attrs...)
	for _, a := range attrs {
		a.Key = h.prefix + a.Key
		c.attrs = append(c.attrs, a)
	}
	return &c
}

func (h *humanHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.prefix = h.prefix + name + "."
	return &c
}
