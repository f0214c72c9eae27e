package enginetest

import (
	"bufio"
	"errors"
	"io"
	"path"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

var execCases = []testCase{
	{name: "Exec", test: execOutput},
	{name: "ExecInput", test: execInput},
	{name: "ExecSignal", test: execSignal},
	{name: "ExecTerminal", test: execTerminal},
	{name: "ExecBackground", test: execBackground},
	{name: "ExecClose", test: execClose},
	{name: "ExecUnread", test: execUnread},
	{name: "ExecRemoved", test: execRemoved},
	{name: "ExecFails", test: execFails},
}

func (s *suite) exec(t *testing.T, id string, r engine.ExecRequest) engine.Process {
	t.Helper()
	p, err := s.Exec(within(t), id, r)
	if err != nil {
		t.Fatalf("Exec: %v", err)
	}
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// sh runs a script in the instance and returns its output.
func (s *suite) sh(t *testing.T, id, script string) string {
	t.Helper()
	p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", script}})
	_ = p.Stdin().Close()
	out, errs, status := finish(t, p)
	if status != 0 || errs != "" {
		t.Errorf("%s: status %d, %s", script, status, errs)
	}
	return out
}

// lastCall creates the file go, on which the instance ends itself. It may end before the
// command, which is then killed.
func (s *suite) lastCall(t *testing.T, id string) {
	t.Helper()
	p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", "touch go"}})
	_ = p.Stdin().Close()
	if _, errs, status := finish(t, p); status != 0 && status != 128+9 {
		t.Errorf("touch go: status %d, %s", status, errs)
	}
}

// finish reads both outputs to their end and waits.
func finish(t *testing.T, p engine.Process) (out, errs string, status int) {
	t.Helper()
	result := make(chan string, 1)
	go func() {
		if p.Stderr() == nil {
			result <- ""
			return
		}
		b, _ := io.ReadAll(p.Stderr())
		result <- string(b)
	}()
	b, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Errorf("reading output: %v", err)
	}
	errs = <-result
	status, err = p.Wait()
	if err != nil {
		t.Errorf("Wait: %v", err)
	}
	return string(b), errs, status
}

// host starts an instance to run processes in.
func (s *suite) host(t *testing.T) (string, *follower) {
	t.Helper()
	id, f := s.run(t, sh("web", `umask 022; mkdir sub; echo content >sub/file; echo ready; `+waiting))
	f.line("ready")
	f.event(initproto.EventHealthy)
	return id, f
}

func execOutput(s *suite, t *testing.T) {
	id, _ := s.host(t)
	p := s.exec(t, id, engine.ExecRequest{
		Args: []string{"sh", "-c", `echo out; echo err >&2; echo "$WORD $MORE $HOME"; pwd; id -u; cat sub/file; exit 9`},
		Env:  []string{"MORE=more"},
	})
	out, errs, status := finish(t, p)
	if errs != "err\n" || status != 9 {
		t.Errorf("stderr %q, status %d", errs, status)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 5 || lines[0] != "out" || lines[4] != "content" {
		t.Fatalf("stdout %q", out)
	}
	home := lines[2]
	if !path.IsAbs(home) || lines[1] != "given more "+home {
		t.Errorf("environment %q, directory %q", lines[1], home)
	}
	if member := s.sh(t, id, `stat -c %u sub/file`); strings.TrimSpace(member) != lines[3] {
		t.Errorf("it runs as %s, members as %s", lines[3], member)
	}
	// Its output can be opened by name.
	p = s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", `echo out >/dev/stdout; echo err >/dev/stderr`}})
	if out, errs, status := finish(t, p); out != "out\n" || errs != "err\n" || status != 0 {
		t.Errorf("%q %q %d", out, errs, status)
	}
	for _, dir := range []string{"sub", "{{home}}/sub", home + "/sub"} {
		p := s.exec(t, id, engine.ExecRequest{Args: []string{"cat", "file"}, Dir: dir})
		if out, errs, status := finish(t, p); out != "content\n" || status != 0 {
			t.Errorf("in %s: %q %q %d", dir, out, errs, status)
		}
	}
}

func execInput(s *suite, t *testing.T) {
	id, _ := s.host(t)
	p := s.exec(t, id, engine.ExecRequest{Args: []string{"cat"}})
	const size = 1 << 20
	go func() {
		_, _ = io.WriteString(p.Stdin(), strings.Repeat("x", size))
		_ = p.Stdin().Close()
	}()
	if out, errs, status := finish(t, p); len(out) != size || errs != "" || status != 0 {
		t.Errorf("%d bytes came back, %q, status %d", len(out), errs, status)
	}
}

func execSignal(s *suite, t *testing.T) {
	id, _ := s.host(t)
	for name, c := range map[string]struct {
		script string
		signal syscall.Signal
		status int
	}{
		"Trapped": {`trap 'exit 6' TERM; echo ready; while :; do sleep 0.02; done`, syscall.SIGTERM, 6},
		"Not":     {`echo ready; while :; do sleep 0.02; done`, syscall.SIGTERM, 143},
		"Killed":  {`trap '' TERM; echo ready; while :; do sleep 0.02; done`, syscall.SIGKILL, 137},
	} {
		p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", c.script}})
		if line, err := bufio.NewReader(p.Stdout()).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%s: %q, %v", name, line, err)
		}
		if err := p.Signal(int(c.signal)); err != nil {
			t.Errorf("%s: Signal: %v", name, err)
		}
		if status, err := p.Wait(); err != nil || status != c.status {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
		if err := p.Signal(int(c.signal)); err != nil {
			t.Errorf("%s: Signal after the end: %v", name, err)
		}
	}
}

func execTerminal(s *suite, t *testing.T) {
	id, _ := s.host(t)
	p := s.exec(t, id, engine.ExecRequest{
		Args: []string{"/bin/sh", "-c",
			`test -t 0 && test -t 1 && test -t 2 && echo tty; echo $TERM; stty size; read x; stty size; read y; tty -s && echo still; exit 4`},
		Terminal: &engine.Terminal{Term: "xterm-test", Columns: 101, Rows: 37},
	})
	if p.Stderr() != nil {
		t.Error("a terminal has a second output")
	}
	screen := bufio.NewReader(p.Stdout())
	expect := func(want string) {
		t.Helper()
		for {
			line, err := screen.ReadString('\n')
			if strings.TrimSpace(line) == want {
				return
			}
			if err != nil {
				t.Fatalf("no %q: %v", want, err)
			}
		}
	}
	expect("tty")
	expect("xterm-test")
	expect("37 101")
	if err := p.Resize(88, 22); err != nil {
		t.Fatalf("Resize: %v", err)
	}
	if _, err := io.WriteString(p.Stdin(), "go\n"); err != nil {
		t.Fatal(err)
	}
	expect("22 88")
	if _, err := io.WriteString(p.Stdin(), "on\n"); err != nil {
		t.Fatal(err)
	}
	expect("still")
	if _, err := io.ReadAll(screen); err != nil {
		t.Errorf("the screen ends with %v", err)
	}
	if status, err := p.Wait(); err != nil || status != 4 {
		t.Errorf("status %d, %v", status, err)
	}

	// Control-C reaches what runs in the foreground.
	p = s.exec(t, id, engine.ExecRequest{
		Args:     []string{"/bin/sh", "-c", `trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.02; done`},
		Terminal: &engine.Terminal{Columns: 80, Rows: 24},
	})
	screen = bufio.NewReader(p.Stdout())
	expect("ready")
	if _, err := p.Stdin().Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	go func(rest io.Reader) { _, _ = io.Copy(io.Discard, rest) }(screen)
	if status, err := p.Wait(); err != nil || status != 3 {
		t.Errorf("status %d, %v", status, err)
	}

	// The end of the input is passed on too.
	p = s.exec(t, id, engine.ExecRequest{
		Args:     []string{"/bin/sh", "-c", `echo ready; cat; echo over; exit 2`},
		Terminal: &engine.Terminal{Columns: 80, Rows: 24},
	})
	screen = bufio.NewReader(p.Stdout())
	expect("ready")
	if err := p.Stdin().Close(); err != nil {
		t.Error(err)
	}
	expect("over")
	if status, err := p.Wait(); err != nil || status != 2 {
		t.Errorf("status %d, %v", status, err)
	}
}

// execBackground leaves a background job that holds the command's files open. The command
// has ended all the same, and the job keeps running.
func execBackground(s *suite, t *testing.T) {
	id, _ := s.host(t)
	for name, terminal := range map[string]*engine.Terminal{"pipes": nil, "terminal": {Columns: 80, Rows: 24}} {
		p := s.exec(t, id, engine.ExecRequest{
			// Closing a terminal sends SIGHUP, which the job ignores.
			Args: []string{"/bin/sh", "-c", `trap '' HUP; (while [ ! -e stop-` + name + ` ]; do sleep 0.02; done; touch late-` +
				name + `) & echo out; exit 5`}, Terminal: terminal,
		})
		if line, err := bufio.NewReader(p.Stdout()).ReadString('\n'); strings.TrimSpace(line) != "out" {
			t.Fatalf("%s: %q, %v", name, line, err)
		}
		if status, err := p.Wait(); err != nil || status != 5 {
			t.Errorf("%s: status %d, %v", name, status, err)
		}
		if err := p.Close(); err != nil {
			t.Errorf("%s: Close: %v", name, err)
		}
		s.sh(t, id, `touch stop-`+name+`; while [ ! -e late-`+name+` ]; do sleep 0.02; done`)
	}
}

func execClose(s *suite, t *testing.T) {
	id, f := s.host(t)
	for _, terminal := range []*engine.Terminal{nil, {Columns: 80, Rows: 24}} {
		p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c",
			`trap '' HUP TERM; while :; do sleep 0.02; done`}, Terminal: terminal})
		if err := p.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if status, err := p.Wait(); err != nil || status != 137 {
			t.Errorf("status %d, %v", status, err)
		}
	}
	// The instance is not affected.
	s.sh(t, id, `true`)
	testkit.Must(t, s.Signal(within(t), id))
	f.end()
}

// execUnread: a process whose output is not read, and which does not read its input, can
// still be signalled and closed.
func execUnread(s *suite, t *testing.T) {
	id, _ := s.host(t)
	p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c", `yes >&2 & yes`}})
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = io.WriteString(p.Stdin(), strings.Repeat("x", 1<<20))
	}()
	if _, err := io.ReadFull(p.Stdout(), make([]byte, 1<<20)); err != nil {
		t.Errorf("reading one output while the other is full: %v", err)
	}
	if err := p.Signal(int(syscall.SIGKILL)); err != nil {
		t.Errorf("Signal: %v", err)
	}
	if status, err := p.Wait(); err != nil || status != 137 {
		t.Errorf("status %d, %v, want 137", status, err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	<-written
}

func execRemoved(s *suite, t *testing.T) {
	id, _ := s.host(t)
	p := s.exec(t, id, engine.ExecRequest{Args: []string{"/bin/sh", "-c",
		`trap '' HUP TERM; echo ready; while :; do sleep 1000; done`}})
	if line, err := bufio.NewReader(p.Stdout()).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	s.remove(t, id)
	if status, err := p.Wait(); err == nil && status != 137 {
		t.Errorf("status %d", status)
	}
}

func execFails(s *suite, t *testing.T) {
	id, f := s.host(t)
	for name, r := range map[string]engine.ExecRequest{
		"Nothing":   {},
		"NoProgram": {Args: []string{"no-such-program"}},
		"NoFile":    {Args: []string{"/no/such/program"}},
	} {
		p, err := s.Exec(within(t), id, r)
		if err != nil {
			continue
		}
		// An engine may notice only when the process ends.
		if _, _, status := finish(t, p); status != 127 && status != 126 {
			t.Errorf("%s: status %d", name, status)
		}
		_ = p.Close()
	}
	testkit.Must(t, s.Signal(within(t), id))
	f.end()
	s.awaitGone(t, id)
	if _, err := s.Exec(within(t), id, engine.ExecRequest{Args: []string{"true"}}); err == nil ||
		errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Exec after the end: %v", err)
	}
}
