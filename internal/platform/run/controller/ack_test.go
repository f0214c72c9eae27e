package controller

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// scriptedStream returns records as the test sends them, and notes acknowledgements.
type scriptedStream struct {
	records chan initproto.Record
	acks    chan engine.Position
}

func (s *scriptedStream) Next() (initproto.Record, error) {
	r, ok := <-s.records
	if !ok {
		return r, io.EOF
	}
	return r, nil
}

func (s *scriptedStream) Ack(upTo engine.Position) error { s.acks <- upTo; return nil }

func (s *scriptedStream) Close() error { return nil }

// TestAcknowledged: the engine may forget what the log has stored, or what was given up as
// lost, but not the end: that is acknowledged by Remove.
func TestAcknowledged(t *testing.T) {
	t.Parallel()
	logs := newLogs()
	failures := 2
	logs.fail = func(entries []platform.LogLine) error {
		if string(entries[0].Text) == "difficult" && failures > 0 {
			failures--
			return errors.New("the disk is full")
		}
		return nil
	}
	var gone atomic.Bool
	var wrote atomic.Int64
	var missed atomic.Uint64
	p := &pump{
		Config: &Config{Logs: logs, Log: slog.New(slog.DiscardHandler)}, app: "app", id: "i", index: "0",
		sources: []string{"APP"},
		gone:    &gone, wrote: &wrote, missed: &missed, happened: func([]event) {},
	}
	s := &scriptedStream{records: make(chan initproto.Record), acks: make(chan engine.Position, 100)}
	result := make(chan error, 1)
	go func() { result <- p.readAll(t.Context(), s) }()
	expect := func(want engine.Position, stored ...string) {
		t.Helper()
		select {
		case got := <-s.acks:
			if got != want || !slices.Equal(logs.of("APP"), stored) {
				t.Errorf("acknowledged %d with %q in the log, want %d with %q", got, logs.of("APP"), want, stored)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d is not acknowledged", want)
		}
	}
	line := func(seq uint64, text string) {
		s.records <- initproto.Record{Kind: initproto.Stdout, Seq: seq, Payload: []byte(text)}
	}
	line(1, "easy")
	expect(1, "easy")
	line(2, "difficult")
	expect(2, "easy", "difficult")
	s.records <- initproto.Record{Kind: initproto.Event, Seq: 3,
		Payload: initproto.EventBody{Event: initproto.EventEnded}.JSON()}
	expect(2, "easy", "difficult")
	close(s.records)
	if err := <-result; !errors.Is(err, io.EOF) {
		t.Errorf("the stream ends with %v, want %v", err, io.EOF)
	}
}

// TestNotAcknowledged: what a stopping server could not store is kept by the engine.
func TestNotAcknowledged(t *testing.T) {
	t.Parallel()
	logs := newLogs()
	ctx, cancel := context.WithCancel(t.Context())
	logs.fail = func([]platform.LogLine) error { cancel(); return errors.New("closed") }
	var gone atomic.Bool
	var wrote atomic.Int64
	var missed atomic.Uint64
	p := &pump{
		Config: &Config{Logs: logs, Log: slog.New(slog.DiscardHandler)}, id: "i", sources: []string{"APP"},
		gone: &gone, wrote: &wrote, missed: &missed, happened: func([]event) {},
	}
	s := &scriptedStream{records: make(chan initproto.Record, 1), acks: make(chan engine.Position, 100)}
	s.records <- initproto.Record{Kind: initproto.Stdout, Seq: 1, Payload: []byte("line")}
	close(s.records)
	_ = p.readAll(ctx, s)
	if len(s.acks) > 0 {
		t.Errorf("%d is acknowledged, but was not stored", <-s.acks)
	}
}
