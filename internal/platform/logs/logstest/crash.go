package logstest

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

func crashLine(stream int, seq uint64) platform.LogLine {
	return Line("app-"+strconv.Itoa(stream%2), "stream-"+strconv.Itoa(stream), seq,
		T0.Add(time.Duration(seq)*time.Microsecond),
		fmt.Sprintf("stream %d line %d %s", stream, seq, strings.Repeat("x", int(seq%97))))
}

const crashStreams = 4

// CrashOptions are those of the stores that are killed.
var CrashOptions = Options{PerAppBytes: 1 << 20}

// WriteForever is the process that the suite kills: it continues where the store ends, and
// prints after each batch what it was told is stored. TestMain of a store's tests calls it
// if the Environment of a Location is set.
func WriteForever(open func(Options) (logs.Store, error)) {
	fail := func(err error) {
		fmt.Println("error", err) //nolint:forbidigo // what the parent reads
		os.Exit(1)
	}
	s, err := open(CrashOptions)
	if err != nil {
		fail(err)
	}
	for {
		var batch []platform.LogLine
		stream := rand.IntN(crashStreams)
		first := s.Position("stream-"+strconv.Itoa(stream)) + 1
		last := first + uint64(rand.IntN(400))
		for seq := first; seq <= last; seq++ {
			batch = append(batch, crashLine(stream, seq))
		}
		if err := s.Append(batch...); err != nil {
			fail(err)
		}
		fmt.Println(stream, last) //nolint:forbidigo // what the parent reads
	}
}

// A process that is killed while it writes leaves everything that it was told is stored,
// and no stream with a gap or a repeated line.
func testKill(s *suite) {
	told := make([]uint64, crashStreams)
	for range 6 {
		cmd := exec.CommandContext(s.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), s.at.Environment...)
		out, err := cmd.StdoutPipe()
		testkit.Must(s, err)
		testkit.Must(s, cmd.Start())
		lines := bufio.NewScanner(out)
		kill := 10 + rand.IntN(150)
		for n := 0; lines.Scan(); n++ {
			var stream int
			var seq uint64
			if _, err := fmt.Sscan(lines.Text(), &stream, &seq); err != nil {
				s.Fatalf("line is %q, want a stream and a number: %v", lines.Text(), err)
			}
			told[stream] = seq
			if n == kill { // and read on what is in the pipe
				testkit.Must(s, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait() // killed

		store := s.open(CrashOptions)
		for n := range 2 {
			checkCrashed(s, store, "app-"+strconv.Itoa(n))
		}
		for stream, seq := range told {
			if got := store.Position("stream-" + strconv.Itoa(stream)); got < seq {
				s.Fatalf("stream %d is at %d, but %d was said to be stored", stream, got, seq)
			}
		}
		s.settle(store)
		store.Stop()
	}
}

// checkCrashed checks that each stream's lines end at its position, have no gap before it,
// and are what was written.
func checkCrashed(s *suite, store logs.Store, app string) {
	s.Helper()
	last := map[string]uint64{}
	for _, e := range ReadAll(s, store, app, 1000) {
		if before, seen := last[e.Stream]; seen && e.Seq != before+1 {
			s.Fatalf("%s: %d after %d", e.Stream, e.Seq, before)
		}
		last[e.Stream] = e.Seq
		n, err := strconv.Atoi(strings.TrimPrefix(e.Stream, "stream-"))
		testkit.Must(s, err)
		if want := crashLine(n, e.Seq); string(e.Text) != string(want.Text) || e.App != want.App {
			s.Fatalf("got %q, want %q", e.Text, want.Text)
		}
	}
	for stream, seq := range last {
		if got := store.Position(stream); got != seq {
			s.Fatalf("%s is at %d, its last line is %d", stream, got, seq)
		}
	}
}
