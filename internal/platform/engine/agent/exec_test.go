//go:build linux

package agent_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"ingot/internal/platform/engine"
)

func TestExec(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			p, err := w.Exec(within(t), engine.ExecRequest{Args: []string{"/bin/sh", "-c", `pwd; echo "$X" >&2; cat; exit 7`},
				Env: []string{"X=more"}})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			input := strings.Repeat("0123456789", 100_000) // more than the windows
			work.Go(func() {
				_, _ = io.WriteString(p.Stdin(), input)
				_ = p.Stdin().Close()
			})
			errs := make(chan string, 1)
			work.Go(func() { b, _ := io.ReadAll(p.Stderr()); errs <- string(b) })
			out, err := io.ReadAll(p.Stdout())
			if err != nil || string(out) != w.home+"\n"+input {
				t.Errorf("%d bytes came back, %v, want %d", len(out), err, len(w.home)+1+len(input))
			}
			if got := <-errs; got != "more\n" {
				t.Errorf("errors %q, want more", got)
			}
			if status, err := p.Wait(); err != nil || status != 7 {
				t.Errorf("status %d, %v, want 7", status, err)
			}
		})
	}
	work.Wait()
	if _, err := w.Exec(within(t), engine.ExecRequest{Args: []string{"/no/such/program"}}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a program that does not exist: %v, want %v", err, os.ErrNotExist)
	}
	if _, err := w.Exec(within(t), engine.ExecRequest{}); err == nil {
		t.Error("nothing was run")
	}
}

// TestExecKilled: a process ends with Close, and with its connection.
func TestExecKilled(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	for _, terminal := range []*engine.Terminal{nil, {Term: "xterm", Columns: 80, Rows: 24}} {
		p, err := w.Exec(within(t), engine.ExecRequest{Args: []string{"/bin/sh", "-c", `trap "" HUP TERM; yes & yes`},
			Terminal: terminal})
		if err != nil {
			t.Fatal(err)
		}
		if terminal != nil {
			if err := p.Resize(100, 50); err != nil {
				t.Error(err)
			}
		} else if p.Resize(1, 1) == nil {
			t.Error("a process without a terminal was resized")
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if status, err := p.Wait(); err != nil || status != 137 {
			t.Errorf("status %d, %v, want 137", status, err)
		}
		if err := p.Signal(15); err != nil {
			t.Errorf("Signal after the end: %v", err)
		}
	}
}
