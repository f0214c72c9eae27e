package initproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"
)

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	for _, r := range []Record{
		{Kind: Stdout, Time: time.Unix(0, 1794710014123456789), Seq: 4711, Member: 0,
			Payload: []byte("the text of the line")},
		{Kind: Stderr, Time: time.Unix(0, 0), Seq: 1, Member: 12, Payload: []byte{}},
		{Kind: Event, Time: time.Unix(0, -5), Seq: math.MaxUint64, Member: math.MaxInt32, Payload: []byte(" \x00\xff\r ")},
		{Kind: Stdout, Time: time.Unix(0, math.MaxInt64), Seq: 10, Payload: bytes.Repeat([]byte("x"), MaxLineSize)},
	} {
		line := r.Append(nil)
		got, err := ParseRecord(line)
		if err != nil {
			t.Fatalf("parsing %.80q: %v", line, err)
		}
		if got.Kind != r.Kind || !got.Time.Equal(r.Time) || got.Seq != r.Seq || got.Member != r.Member ||
			!bytes.Equal(got.Payload, r.Payload) {
			t.Errorf("%.80q is read as %+v", line, got)
		}
	}
}

func TestParseRecordRefuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "\n", "o", "o ", "o 1 2 3", "x 1 2 3 y", "oo 1 2 3 y", "o  2 3 y", "o 1 -2 3 y", "o 1 2 -3 y", "o +1 2 3 y",
		"o 01 2 3 y", "o -0 2 3 y", "o 1 2 3 y\nz", "o 9223372036854775808 2 3 y", "o 1 18446744073709551616 3 y",
		"o 1 2 2147483648 y", "o 1a 2 3 y", "\x00 1 2 3 y",
	} {
		if r, err := ParseRecord([]byte(line)); !errors.Is(err, ErrRecord) {
			t.Errorf("%q is read as %+v, %v", line, r, err)
		}
	}
}

func TestEventBodyHasOnlyWhatItNeeds(t *testing.T) {
	t.Parallel()
	if got := string(EventBody{Event: EventStarted}.JSON()); got != `{"event":"started"}` {
		t.Errorf("event is %s, want only its kind", got)
	}
	body := EventBody{Event: EventEnded, Status: 137, OOM: true, Stopped: true, Reason: "x\ny"}
	var back EventBody
	if err := json.Unmarshal(body.JSON(), &back); err != nil || back != body {
		t.Errorf("event is %+v, %v, want %+v", back, err, body)
	}
	if bytes.Contains(body.JSON(), []byte("\n")) || !isEnd(body.JSON()) || isEnd([]byte(`{"event":"started"}`)) ||
		isEnd([]byte(`{`)) {
		t.Errorf("event %s holds a newline, or isEnd is wrong about it or another", body.JSON())
	}
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("o 1794710014123456789 4711 0 the text of the line\n"))
	f.Add([]byte(`v -1 18446744073709551615 2147483647 {"event":"ended"}`))
	f.Add([]byte("e 0 0 0 "))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRecord(line)
		if err != nil {
			return
		}
		if again := r.Append(nil); !bytes.Equal(bytes.TrimSuffix(again, []byte("\n")), bytes.TrimSuffix(line, []byte("\n"))) {
			t.Fatalf("%q is written again as %q", line, again)
		}
	})
}
