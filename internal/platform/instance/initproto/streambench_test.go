package initproto

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func FuzzReader(f *testing.F) {
	f.Add([]byte("o 1 1 0 a\no 2 2 0 b\n"), []byte("o 3 3 0 c\nv 4 4 0 {\"event\":\"ended\"}\n"), uint64(3), uint64(0))
	f.Add([]byte("o 1 1 0 a\ntorn"), []byte("\n\n\x00"), uint64(2), uint64(1))
	f.Fuzz(func(t *testing.T, a, b []byte, second, after uint64) {
		dir := t.TempDir()
		for first, content := range map[uint64][]byte{1: a, max(second, 2): b} {
			if err := os.WriteFile(filepath.Join(dir, segmentName(first)), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := OpenReader(dir, after)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.Finish()
		last := after
		for {
			rec, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if rec.Seq <= last {
				t.Fatalf("%d after %d", rec.Seq, last)
			}
			last = rec.Seq
		}
		// A writer takes it from there, whatever it is.
		w, err := OpenWriter(dir, WriterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		seq := w.Last()
		if seq == 1<<64-1 {
			return // there are no more numbers
		}
		if got, err := w.Append(Stdout, time.Now(), 0, []byte("more")); err != nil || got != seq+1 {
			t.Fatalf("appended record %d, %v, want %d", got, err, seq+1)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func benchmarkLine() []byte { return bytes.Repeat([]byte("x"), 100) }

func BenchmarkWriter(b *testing.B) {
	for _, bench := range []struct {
		name  string
		batch int
	}{{"each", 1}, {"chunks", 600}} {
		b.Run(bench.name, func(b *testing.B) {
			w := openWriter(b, b.TempDir(), WriterOptions{})
			line, at := benchmarkLine(), time.Now()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := w.Add(Stdout, at, 0, line); err != nil {
					b.Fatal(err)
				}
				if i%bench.batch == 0 {
					if err := w.Flush(); err != nil {
						b.Fatal(err)
					}
				}
			}
			closeWriter(b, w)
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}

func BenchmarkReader(b *testing.B) {
	dir := b.TempDir()
	w := openWriter(b, dir, WriterOptions{})
	const count = 60000
	line, at := benchmarkLine(), time.Now()
	for range count {
		if _, err := w.Add(Stdout, at, 0, line); err != nil {
			b.Fatal(err)
		}
	}
	closeWriter(b, w)
	b.ReportAllocs()
	b.ResetTimer()
	total := 0
	for range b.N {
		r := openReader(b, dir, 0)
		r.Finish()
		for {
			if _, err := r.Next(); err != nil {
				break
			}
			total++
		}
		r.Close()
	}
	b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkFollow is a writer and a reader that is woken for each record.
func BenchmarkFollow(b *testing.B) {
	dir := b.TempDir()
	w := openWriter(b, dir, WriterOptions{})
	r := openReader(b, dir, 0)
	line := benchmarkLine()
	for b.Loop() {
		if _, err := w.Append(Stdout, time.Now(), 0, line); err != nil {
			b.Fatal(err)
		}
		if _, err := r.Next(); err != nil {
			b.Fatal(err)
		}
	}
	closeWriter(b, w)
}
