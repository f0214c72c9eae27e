package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

// split feeds a splitter piece by piece.
func split(pieces ...string) []string {
	var s splitter
	var lines []string
	emit := func(line []byte) { lines = append(lines, string(line)) }
	for _, piece := range pieces {
		for len(piece) > 0 {
			n := copy(s.space(), piece)
			piece = piece[n:]
			s.took(n, emit)
		}
	}
	s.flush(emit)
	return lines
}

func TestSplitter(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("x", initproto.MaxLineSize)
	for _, test := range []struct {
		name string
		in   []string
		want []string
	}{
		{"nothing", nil, nil},
		{"one", []string{"a\n"}, []string{"a"}},
		{"several", []string{"a\nb\n\nc\n"}, []string{"a", "b", "", "c"}},
		{"in pieces", []string{"a", "b", "\n", "c\nd", "e\n"}, []string{"ab", "c", "de"}},
		{"no line break at the end", []string{"a\nb"}, []string{"a", "b"}},
		{"any bytes", []string{"a\x00\xff\r\tb\n"}, []string{"a\x00\xff\r\tb"}},
		{"exactly the limit", []string{full + "\nb\n"}, []string{full, "b"}},
		{"over the limit", []string{full + "y\nb\n"}, []string{full, "y", "b"}},
		{"twice the limit", []string{full + full + "\n"}, []string{full, full}},
		{"the limit, then an empty line", []string{full + "\n\n"}, []string{full, ""}},
		{"the limit, then the end", []string{full}, []string{full}},
		{"no character is cut", []string{full[1:] + "é" + "z\n"}, []string{full[1:], "éz"}},
		{"a long one is cut between characters", []string{full[2:] + "é" + "z\n"}, []string{full[2:] + "é", "z"}},
		{"no text at all", []string{strings.Repeat("\x80", initproto.MaxLineSize+1)},
			[]string{strings.Repeat("\x80", initproto.MaxLineSize), "\x80"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := split(test.in...); !slices.Equal(got, test.want) {
				t.Errorf("%d lines: %.100q", len(got), got)
			}
		})
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\nb\n\nc"), uint64(1), uint16(0))
	f.Add([]byte("é\n"), uint64(2), uint16(65535))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64, padding uint16) {
		text = append(bytes.Repeat([]byte("p"), int(padding)), text...)
		r := rand.New(rand.NewPCG(seed, 0))
		var pieces []string
		for rest := text; len(rest) > 0; {
			n := 1 + r.IntN(len(rest))
			pieces = append(pieces, string(rest[:n]))
			rest = rest[n:]
		}
		got := split(pieces...)
		for _, line := range got {
			if len(line) > initproto.MaxLineSize || strings.Contains(line, "\n") {
				t.Fatalf("line of %d bytes is too long or holds a newline: %.80q", len(line), line)
			}
		}
		if strings.Join(got, "") != strings.ReplaceAll(string(text), "\n", "") {
			t.Fatal("text was lost")
		}
		if whole := split(string(text)); !slices.Equal(whole, got) {
			t.Fatal("it depends on the pieces")
		}
	})
}

func TestBucket(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	type take struct {
		after time.Duration
		n     int
		want  bool
	}
	for _, test := range []struct {
		name  string
		rate  int64
		takes []take
	}{
		{"no limit", -1, []take{{0, 1 << 30, true}, {0, 1 << 30, true}}},
		{"nothing", 0, []take{{0, 1, false}, {time.Hour, 1, false}}},
		{"one second's worth at once", 100, []take{{0, 60, true}, {0, 40, true}, {0, 1, false}}},
		{"it fills", 100, []take{{0, 100, true}, {0, 1, false}, {100 * time.Millisecond, 10, true}, {0, 1, false}}},
		{"it does not overflow", 100, []take{{0, 100, true}, {time.Hour, 100, true}, {0, 1, false}}},
		{"a long line passes, and is owed", 100, []take{{0, 300, true}, {time.Second, 1, false},
			{1100 * time.Millisecond, 1, true}}},
		{"the clock goes back", 100, []take{{0, 100, true}, {-time.Hour, 1, false}, {time.Second, 1, true}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b, now := bucket{rate: test.rate}, begin
			for i, x := range test.takes {
				now = now.Add(x.after)
				if got := b.take(now, x.n); got != x.want {
					t.Errorf("take %d: %v", i, got)
				}
			}
		})
	}
}

// TestLateSettle: what is left of an ended life is recorded without cutting a line that the
// next life is about to finish.
func TestLateSettle(t *testing.T) {
	t.Parallel()
	var records bytes.Buffer
	o := &output{w: initproto.NewStreamWriter(&records), bucket: bucket{rate: -1}}
	var ends [2]*os.File
	var lives [2]*stream
	var before []*stream
	for i := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		ends[i], lives[i] = w, newStream(o, initproto.Stdout, r)
		if _, err := w.WriteString([]string{"old", "new li"}[i]); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			before = o.current() // when the first life ended
		}
		go lives[i].run()
	}
	o.settle(before)
	if _, err := ends[1].WriteString("ne\n"); err != nil {
		t.Fatal(err)
	}
	for i, w := range ends {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		<-lives[i].done
	}
	if got := records.String(); !strings.Contains(got, " old\n") || !strings.Contains(got, " new line\n") {
		t.Errorf("the records are %q, want the lines 'old' and 'new line'", got)
	}
}
