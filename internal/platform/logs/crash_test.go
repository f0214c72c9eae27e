package logs_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

const writerEnv = "INGOT_TEST_LOG_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerEnv); dir != "" {
		writeForever(dir)
	}
	goleak.VerifyTestMain(m,
		// The cache of verified tokens has a clock of its own.
		goleak.IgnoreAnyFunction("github.com/maypok86/otter/v2.periodicCleanUp[...]"))
}

func crashLine(stream int, seq uint64) platform.LogLine {
	return line("app-"+strconv.Itoa(stream%2), "stream-"+strconv.Itoa(stream), seq, t0.Add(time.Duration(seq)*time.Microsecond),
		fmt.Sprintf("stream %d line %d %s", stream, seq, strings.Repeat("x", int(seq%97))))
}

const crashStreams = 4

var crashOptions = logs.Options{PerAppBytes: 1 << 20}

// writeForever is the other process: it goes on where the store stands and says
// after each batch what it was told is there.
func writeForever(dir string) {
	s, err := logs.Open(dir, crashOptions)
	if err != nil {
		fmt.Println("error", err) //nolint:forbidigo // what the parent reads
		os.Exit(1)
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
			fmt.Println("error", err) //nolint:forbidigo // what the parent reads
			os.Exit(1)
		}
		fmt.Println(stream, last) //nolint:forbidigo // what the parent reads
	}
}

func TestKill9(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	told := make([]uint64, crashStreams)
	for range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), writerEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		kill := 10 + rand.IntN(150)
		for n := 0; lines.Scan(); n++ {
			var stream int
			var seq uint64
			if _, err := fmt.Sscan(lines.Text(), &stream, &seq); err != nil {
				t.Fatalf("line is %q, want a stream and a number: %v", lines.Text(), err)
			}
			told[stream] = seq
			if n == kill { // and read on what is in the pipe
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed

		s := open(t, dir, crashOptions)
		for n := range 2 {
			checkCrashed(t, s, "app-"+strconv.Itoa(n))
		}
		for stream, seq := range told {
			if got := s.Position("stream-" + strconv.Itoa(stream)); got < seq {
				t.Fatalf("stream %d is at %d, but %d was said to be there", stream, got, seq)
			}
		}
		s.Stop()
	}
}

// checkCrashed sees that each stream's lines end at its position, have no gap
// before it, and are what was written.
func checkCrashed(t *testing.T, s *logs.Store, app string) {
	t.Helper()
	last := map[string]uint64{}
	for _, e := range readAll(t, s, app, 1000) {
		if before, seen := last[e.Stream]; seen && e.Seq != before+1 {
			t.Fatalf("%s: %d after %d", e.Stream, e.Seq, before)
		}
		last[e.Stream] = e.Seq
		n, err := strconv.Atoi(strings.TrimPrefix(e.Stream, "stream-"))
		if err != nil {
			t.Fatal(err)
		}
		if want := crashLine(n, e.Seq); string(e.Text) != string(want.Text) || e.App != want.App {
			t.Fatalf("got %q, want %q", e.Text, want.Text)
		}
	}
	for stream, seq := range last {
		if s.Position(stream) != seq {
			t.Fatalf("%s is at %d, its last line is %d", stream, s.Position(stream), seq)
		}
	}
}
