package acme

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newLogger returns a logger for certmagic that writes to the operator's log. Its reports
// of every step are for debugging: what matters, the Manager reports.
func newLogger(log *slog.Logger) *zap.Logger { return zap.New(&logCore{log: log}) }

type logCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// levelOf returns the level of a line. Failures of orders are in the error that the Manager
// reports, and anyone can send a handshake like an authority's.
func levelOf(e zapcore.Entry) slog.Level {
	known := strings.Contains(e.LoggerName, "acme_client") || strings.Contains(e.LoggerName, "obtain") ||
		e.Message == "tls-alpn challenge"
	if e.Level < zapcore.ErrorLevel || known {
		return slog.LevelDebug
	}
	return slog.LevelWarn // it tries again
}

// Enabled implements zapcore.Core.
func (c *logCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && c.log.Enabled(context.Background(), levelOf(zapcore.Entry{Level: l}))
}

// With implements zapcore.Core.
func (c *logCore) With(fields []zapcore.Field) zapcore.Core {
	return &logCore{c.log, append(c.fields[:len(c.fields):len(c.fields)], fields...)}
}

// Check implements zapcore.Core.
func (c *logCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(e.Level) || !c.log.Enabled(context.Background(), levelOf(e)) {
		return checked
	}
	return checked.AddCore(e, c)
}

// Write implements zapcore.Core.
func (c *logCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range c.fields {
		f.AddTo(values)
	}
	for _, f := range fields {
		f.AddTo(values)
	}
	attributes := []any{"part", "certmagic " + e.LoggerName}
	for _, name := range slices.Sorted(maps.Keys(values.Fields)) {
		attributes = append(attributes, name, values.Fields[name])
	}
	c.log.Log(context.Background(), levelOf(e), "certificates: "+e.Message, attributes...)
	return nil
}

// Sync implements zapcore.Core.
func (c *logCore) Sync() error { return nil }
