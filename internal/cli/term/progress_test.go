package term_test

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"ingot/internal/cli/term"
	"ingot/internal/cli/term/termtest"
)

// TestProgressLines says what a step waits for while nothing else is written.
func TestProgressLines(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	done := make(chan struct{})
	progress := term.NewProgressLines(func(line string) {
		select {
		case lines <- line:
		case <-done:
		}
	}, 10*time.Millisecond)
	defer progress.Close()
	defer close(done)
	progress.Step("Staging shop", 0)
	for range 3 {
		if line := <-lines; !regexp.MustCompile(`^Staging shop\.\.\. \(\d+ s\)$`).MatchString(line) {
			t.Errorf("line %q, want the step and its duration", line)
		}
	}
}

// TestProgressOnANarrowScreen draws on a terminal that is far too narrow for the
// line, writes other lines in between, and changes its width.
func TestProgressOnANarrowScreen(t *testing.T) {
	t.Parallel()
	for _, width := range []int{12, 20, 40, 200} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			control, tty, err := pty.Open()
			if err != nil {
				t.Skipf("there are no terminals here: %v", err)
			}
			defer control.Close()
			if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: uint16(width)}); err != nil {
				t.Fatal(err)
			}
			read := make(chan string)
			go func() {
				text, _ := io.ReadAll(bufio.NewReader(control)) // ends with an error when the other side closes
				read <- string(text)
			}()
			columns := func() int {
				_, c, err := pty.Getsize(tty)
				if err != nil {
					return 0
				}
				return c
			}
			progress := term.NewProgress(tty, columns)
			p := term.NewPrinter(tty, true)
			p.WithProgress(progress)
			var want []string
			for i := range 5 {
				progress.Step(fmt.Sprintf("Uploading the app with a very long name, part %d", i), 1000)
				progress.Add(int64(i * 300))
				line := fmt.Sprintf("line %d", i)
				p.Println(p.Good(line))
				want = append(want, line)
			}
			progress.Step("Staging", 0)
			p.Println("end")
			progress.Close()
			tty.Close()
			screen := termtest.NewScreen(width)
			screen.Feed(<-read)
			if got := screen.Lines(); !slices.Equal(got, append(want, "end")) || screen.Wraps > 0 {
				t.Errorf("%d wraps, and on the screen is\n%s", screen.Wraps, strings.Join(got, "\n"))
			}
		})
	}
}

// Without a terminal nothing is drawn.
func TestProgressWithoutATerminal(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	progress := term.NewProgress(&b, nil)
	progress.Step("Uploading", 10)
	progress.Add(5)
	progress.Close()
	if b.Len() > 0 {
		t.Errorf("output is %q, want none", b.String())
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := term.NewPrinter(&b, false)
	p.Table(term.Table{Heading: []string{"name", "state"}, Rows: [][]term.Cell{term.Cells("größe", "on"),
		term.Cells("x", "")}})
	if want := "name    state\ngröße   on\nx\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestSize(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0B", 1023: "1023B", 1024: "1K", 64 << 20: "64M", 3 << 29: "1.5G"} {
		if got := term.Size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
