package initproto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// limit is when a test gives up on what should have happened long ago.
const limit = 30 * time.Second

func openWriter(t testing.TB, dir string, o WriterOptions) *Writer {
	t.Helper()
	w, err := OpenWriter(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// openReader closes the reader at the end of the test, and long before a test
// that waits for nothing is killed.
func openReader(t testing.TB, dir string, after uint64) *Reader {
	t.Helper()
	r, err := OpenReader(dir, after)
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(limit, func() { r.Close() })
	t.Cleanup(func() { timer.Stop(); r.Close() })
	return r
}

func write(t testing.TB, w *Writer, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		seq, err := w.Append(Stdout, time.Unix(0, int64(i)), i%3, fmt.Appendf(nil, "line %d", i))
		if err != nil || seq != uint64(i) {
			t.Fatalf("record %d got number %d: %v", i, seq, err)
		}
	}
}

func writeEnd(t testing.TB, w *Writer) {
	t.Helper()
	if _, err := w.Append(Event, time.Now(), 0, EventBody{Event: EventEnded}.JSON()); err != nil {
		t.Fatal(err)
	}
}

func closeWriter(t testing.TB, w *Writer) {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// read expects the records made by write.
func read(t testing.TB, r *Reader, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		rec, err := r.Next()
		if err != nil {
			t.Fatalf("waiting for %d: %v", i, err)
		}
		if rec.Seq != uint64(i) || string(rec.Payload) != fmt.Sprintf("line %d", i) || rec.Member != i%3 ||
			rec.Time.UnixNano() != int64(i) {
			t.Fatalf("got %d %q, want %d", rec.Seq, rec.Payload, i)
		}
	}
}

func expectEOF(t testing.TB, r *Reader) {
	t.Helper()
	for range 2 {
		if rec, err := r.Next(); !errors.Is(err, io.EOF) {
			t.Fatalf("got %d %q, %v, want the end", rec.Seq, rec.Payload, err)
		}
	}
}

func files(t testing.TB, dir string) (names []string, total int64) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, e.Name())
		total += info.Size()
	}
	return names, total
}

func TestSegmentNames(t *testing.T) {
	t.Parallel()
	if got := segmentName(4711); got != "00000000000000004711.rec" {
		t.Errorf("segment is named %s, want 00000000000000004711.rec", got)
	}
	for _, n := range []uint64{1, 9, 1 << 40, 1<<64 - 1} {
		if got, ok := parseSegmentName(segmentName(n)); !ok || got != n {
			t.Errorf("segment %d is parsed as %d, valid %v", n, got, ok)
		}
	}
	for _, name := range []string{
		"", "1.rec", "00000000000000000000.rec", "0000000000000000000x.rec", "00000000000000000001.tmp",
		"+0000000000000000001.rec", "99999999999999999999.rec",
	} {
		if n, ok := parseSegmentName(name); ok {
			t.Errorf("%q is segment %d", name, n)
		}
	}
}

func TestWriteThenRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir, WriterOptions{})
	write(t, w, 1, 100)
	writeEnd(t, w)
	closeWriter(t, w)
	if _, err := w.Append(Stdout, time.Now(), 0, nil); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	for _, after := range []int{0, 1, 50, 99} {
		r := openReader(t, dir, uint64(after))
		read(t, r, after+1, 100)
		if rec, err := r.Next(); err != nil || rec.Kind != Event {
			t.Fatalf("record is %+v, %v, want an event", rec, err)
		}
		expectEOF(t, r)
	}
	// A reader that has read the end does not wait.
	expectEOF(t, openReader(t, dir, 101))
	expectEOF(t, openReader(t, dir, 1000))
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	w := openWriter(t, t.TempDir(), WriterOptions{})
	defer w.Close()
	for _, payload := range [][]byte{[]byte("a\nb"), make([]byte, MaxLineSize+1)} {
		if _, err := w.Append(Stdout, time.Now(), 0, payload); !errors.Is(err, ErrRecord) {
			t.Error(err)
		}
	}
	if w.Last() != 0 {
		t.Error("a refused record got a number")
	}
}

func TestReaderFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openReader(t, dir, 0) // before the first segment
	done := make(chan struct{})
	go func() {
		defer close(done)
		read(t, r, 1, 500)
		if _, err := r.Next(); err != nil {
			t.Error(err)
		}
		expectEOF(t, r)
	}()
	w := openWriter(t, dir, WriterOptions{SegmentSize: 300, MaxBytes: 1 << 20})
	write(t, w, 1, 500)
	writeEnd(t, w)
	closeWriter(t, w)
	<-done
}

func TestPollingReaderFollows(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := openReader(t, dir, 0)
	r.sub = polled.subscribe() // as where the system tells nothing
	w := openWriter(t, dir, WriterOptions{SegmentSize: 300})
	for i := range 3 {
		write(t, w, i*20+1, i*20+20)
		read(t, r, i*20+1, i*20+20)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		read(t, r, 61, 61)
	}()
	write(t, w, 61, 61)
	<-done
	closeWriter(t, w)
}

func TestReaderGoesOnAfterItsOwnRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const count = 3000
	go func() {
		w := openWriter(t, dir, WriterOptions{SegmentSize: 2000, MaxBytes: 1 << 30})
		write(t, w, 1, count)
		writeEnd(t, w)
		closeWriter(t, w)
	}()
	at := 0
	for at < count {
		r, err := OpenReader(dir, uint64(at))
		if err != nil {
			t.Fatal(err)
		}
		n := min(rand.IntN(200), count-at)
		read(t, r, at+1, at+n)
		at += n
		r.Close()
	}
	r := openReader(t, dir, count)
	if rec, err := r.Next(); err != nil || rec.Kind != Event {
		t.Fatalf("record is %+v, %v, want an event", rec, err)
	}
	expectEOF(t, r)
}

func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := WriterOptions{SegmentSize: 1000, MaxBytes: 4000}
	w := openWriter(t, dir, o)
	slow := openReader(t, dir, 0)
	for i := range 50 {
		write(t, w, i*20+1, i*20+20)
		if i == 0 {
			read(t, slow, 1, 5)
		}
		names, total := files(t, dir)
		if total > o.MaxBytes {
			t.Fatalf("%d bytes in %v", total, names)
		}
	}
	writeEnd(t, w)
	closeWriter(t, w)
	names, _ := files(t, dir)
	first, _ := parseSegmentName(names[0])
	if len(names) < 3 || first < 500 {
		t.Fatalf("segments: %v", names)
	}
	// The slow reader has its segment open, and everything of that; then there
	// is a gap, and then all that still exists.
	var seqs []uint64
	for {
		rec, err := slow.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, rec.Seq)
	}
	gaps := 0
	for i := 1; i < len(seqs); i++ {
		if seqs[i] != seqs[i-1]+1 {
			gaps++
			if seqs[i] != first {
				t.Errorf("jumped to %d, not to %d", seqs[i], first)
			}
		}
	}
	if seqs[0] != 6 || gaps != 1 || seqs[len(seqs)-1] != 1001 {
		t.Errorf("%d gaps in %v", gaps, seqs)
	}
	// One that comes late begins with the first that exists.
	read(t, openReader(t, dir, 7), int(first), 1000)
}

func TestWriterIsReopened(t *testing.T) {
	t.Parallel()
	for _, torn := range []string{"", "o", "o 17 41 0 half a li",
		"o 17 41 0 " + string(bytes.Repeat([]byte("x"), MaxLineSize))} {
		dir := t.TempDir()
		w := openWriter(t, dir, WriterOptions{})
		write(t, w, 1, 40)
		closeWriter(t, w)
		appendTo(t, filepath.Join(dir, segmentName(1)), torn)

		r := openReader(t, dir, 0)
		read(t, r, 1, 40)
		next := make(chan error, 1)
		go func() {
			rec, err := r.Next() // waits at the torn line
			if err == nil && (rec.Seq != 41 || string(rec.Payload) != "line 41") {
				err = fmt.Errorf("got %d %.40q", rec.Seq, rec.Payload)
			}
			next <- err
		}()
		w = openWriter(t, dir, WriterOptions{})
		if w.Last() != 40 {
			t.Fatalf("after %.20q the last record is %d", torn, w.Last())
		}
		write(t, w, 41, 60)
		if err := <-next; err != nil {
			t.Error(err)
		}
		read(t, r, 42, 60)
		closeWriter(t, w)
	}
}

func TestWriterIsReopenedWithoutAnyRecord(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	appendTo(t, filepath.Join(dir, segmentName(7)), "o 1 7 0 to")
	w := openWriter(t, dir, WriterOptions{})
	if w.Last() != 6 {
		t.Fatalf("last record is %d, want 6", w.Last())
	}
	write(t, w, 7, 8)
	closeWriter(t, w)
	read(t, openReader(t, dir, 0), 7, 8)
}

func appendTo(t testing.TB, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestReaderSkipsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	appendTo(t, filepath.Join(dir, segmentName(1)),
		"o 1 1 1 line 1\nrubbish\n\no 2 2 2 line 2\n"+string(bytes.Repeat([]byte("y"), 5*maxRecordSize))+
			"\no 1 1 1 line 1\no 3 3 0 line 3\no 4 4 1 torn")
	appendTo(t, filepath.Join(dir, segmentName(5)), "o 5 5 2 line 5\n")
	appendTo(t, filepath.Join(dir, "other.txt"), "o 6 6 0 line 6\n")
	r := openReader(t, dir, 0)
	read(t, r, 1, 3)
	read(t, r, 5, 5)
	r.Finish()
	expectEOF(t, r)
}

func TestReaderFinish(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir, WriterOptions{SegmentSize: 200})
	write(t, w, 1, 50)
	closeWriter(t, w)
	r := openReader(t, dir, 0)
	r.Finish()
	read(t, r, 1, 50)
	expectEOF(t, r)

	r = openReader(t, dir, 0)
	read(t, r, 1, 50)
	time.AfterFunc(time.Millisecond, r.Finish) // while it waits
	expectEOF(t, r)
}

func TestReaderEndsWithItsDirectory(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved":   func(dir string) error { return os.Rename(dir, dir+"-gone") },
		"replaced": func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "records")
			w := openWriter(t, dir, WriterOptions{})
			write(t, w, 1, 3)
			closeWriter(t, w)
			r := openReader(t, dir, 0)
			read(t, r, 1, 3)
			r.wait() // subscribes
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			expectEOF(t, r)
		})
	}
	if _, err := OpenReader(filepath.Join(t.TempDir(), "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestCloseUnblocksNext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir, WriterOptions{})
	defer w.Close()
	write(t, w, 1, 1)
	var group sync.WaitGroup
	for range 20 {
		r := openReader(t, dir, 0)
		read(t, r, 1, 1)
		group.Go(func() {
			for range 2 {
				if _, err := r.Next(); !errors.Is(err, os.ErrClosed) {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			if err := errors.Join(r.Close(), r.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestManyReadersShareOneWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const dirs, each = 50, 20
	var group sync.WaitGroup
	for d := range dirs {
		dir := filepath.Join(root, fmt.Sprint(d))
		w := openWriter(t, dir, WriterOptions{})
		for range each {
			r := openReader(t, dir, 0)
			group.Go(func() {
				read(t, r, 1, 10)
				r.Close()
			})
		}
		group.Go(func() {
			write(t, w, 1, 10)
			closeWriter(t, w)
		})
	}
	group.Wait()
}

func TestConcurrentWritersAreNumberedWithoutGaps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir, WriterOptions{SegmentSize: 10000, MaxBytes: 1 << 30})
	const writers, each = 8, 300
	var group sync.WaitGroup
	for g := range writers {
		group.Go(func() {
			for i := range each {
				var err error
				if i%3 == 0 {
					_, err = w.Append(Stdout, time.Now(), g, fmt.Append(nil, i))
				} else {
					_, err = w.Add(Stdout, time.Now(), g, fmt.Append(nil, i))
				}
				if err != nil {
					t.Error(err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	closeWriter(t, w)
	r := openReader(t, dir, 0)
	r.Finish()
	next := make([]int, writers)
	for seq := uint64(1); ; seq++ {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || rec.Seq != seq || string(rec.Payload) != fmt.Sprint(next[rec.Member]) {
			t.Fatalf("%+v, %v at %d", rec, err, seq)
		}
		next[rec.Member]++
	}
	if slices.ContainsFunc(next, func(n int) bool { return n != each }) {
		t.Errorf("records of each member are %v, want %d", next, each)
	}
}

// failing is a sink that keeps what it is given, and refuses some.
type failing struct {
	bytes.Buffer
	fail bool
}

var errFull = errors.New("full")

func (f *failing) Write(b []byte) (int, error) {
	if f.fail {
		return 0, errFull
	}
	return f.Buffer.Write(b)
}

func TestWhatCannotBeWrittenIsAGap(t *testing.T) {
	t.Parallel()
	f := &failing{}
	w := NewStreamWriter(f)
	write(t, w, 1, 2)
	f.fail = true
	if _, err := w.Append(Stdout, time.Now(), 0, nil); !errors.Is(err, errFull) {
		t.Error(err)
	}
	f.fail = false
	write(t, w, 4, 5)
	closeWriter(t, w)
	var seqs []uint64
	for line := range bytes.Lines(f.Bytes()) {
		rec, err := ParseRecord(line)
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, rec.Seq)
	}
	if !slices.Equal(seqs, []uint64{1, 2, 4, 5}) {
		t.Errorf("sequence numbers are %v, want 1, 2, 4, 5", seqs)
	}
}

func TestWriterGoesOnAfterAFailedSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w := openWriter(t, dir, WriterOptions{})
	write(t, w, 1, 5)
	d, ok := w.out.(*dirSink)
	if !ok {
		t.Fatal("not a directory")
	}
	if err := d.f.Close(); err != nil { // so that the next write fails
		t.Fatal(err)
	}
	if _, err := w.Append(Stdout, time.Now(), 0, nil); err == nil {
		t.Fatal("written to a closed file")
	}
	write(t, w, 7, 9)
	closeWriter(t, w)
	r := openReader(t, dir, 0)
	read(t, r, 1, 5)
	read(t, r, 7, 9)
}
