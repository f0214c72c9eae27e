package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform/instance/initproto"
)

func body(r initproto.Record) initproto.EventBody {
	var b initproto.EventBody
	if err := json.Unmarshal(r.Payload, &b); err != nil {
		panic(err)
	}
	return b
}

// TestCodependence has one member wait for a file, so that all are running before
// it exits.
func TestCodependence(t *testing.T) {
	t.Parallel()
	const (
		main     = "APP/PROC/WEB: Exited with status "
		sidecar  = "APP/PROC/WEB/SIDECAR/A: Exited with status "
		together = "Codependent step exited"
	)
	for _, test := range []struct {
		name   string
		ends   int // the member that exits
		how    string
		oneOff bool
		status int
		exit   initproto.Exit
	}{
		{"main exits with 0", 0, "exit 0", false, 0, initproto.Exit{Status: 0, Description: together}},
		{"main exits with 3", 0, "exit 3", false, 3, initproto.Exit{Status: 3, Description: main + "3"}},
		{"main is killed", 0, "kill -9 $$", false, 137, initproto.Exit{Status: 137, Description: main + "137"}},
		{"main crashes", 0, "kill -SEGV $$", false, 139, initproto.Exit{Status: 139, Description: main + "139"}},
		{"sidecar exits with 0", 1, "exit 0", false, 0, initproto.Exit{Status: 0, Description: together}},
		{"sidecar exits with 3", 1, "exit 3", false, 3, initproto.Exit{Status: 3, Description: sidecar + "3"}},
		{"sidecar is killed", 1, "kill -9 $$", false, 137, initproto.Exit{Status: 137, Description: sidecar + "137"}},
		{"one-off finishes", 0, "exit 0", true, 0, initproto.Exit{}},
		{"one-off fails", 0, "exit 3", true, 3, initproto.Exit{Status: 3, Description: main + "3"}},
		{"one-off, sidecar finishes", 1, "exit 0", true, 0, initproto.Exit{Status: 143, Description: sidecar +
			"0 before the task ended"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			members := []initproto.Member{shell("web", forever), shell("a", forever), shell("b", forever)}
			members[test.ends] = shell(members[test.ends].Name, `trap '`+test.how+
				`' USR1; echo up; while :; do sleep 1000 & wait; done`)
			s := spec(members...)
			s.OneOff = test.oneOff
			i := start(t, s)
			i.untilAll("v0 ready", fmt.Sprintf("o%d up", test.ends))
			state, err := readState(i.dir)
			if err != nil || state.Phase != initproto.Running || !state.Ready {
				t.Fatalf("state is %+v, %v, want running and ready", state, err)
			}
			if err := syscall.Kill(state.Members[test.ends].PID, syscall.SIGUSR1); err != nil {
				t.Fatal(err)
			}
			if got := i.end(); got != test.exit {
				t.Errorf("%+v\nwant %+v", got, test.exit)
			}
			for n := range members {
				lines := i.lines(initproto.Stdout, n)
				want := fmt.Sprintf("Exit status %d", test.status)
				event := fmt.Sprintf("v%d exited status=%d", n, test.status)
				if n != test.ends {
					want, event = "Exit status 143", fmt.Sprintf("v%d exited status=143 signaled cancelled", n)
				}
				if lines[len(lines)-1] != want || !strings.Contains(i.transcript(), event) {
					t.Errorf("member %d: %q, want %q and %q in:\n%s", n, lines, want, event, i.transcript())
				}
			}
		})
	}
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := func(args ...string) initproto.Member {
		m := shell("web", "")
		m.Args = args
		return m
	}
	elsewhere := shell("web", "true")
	elsewhere.Dir = plain + "-none"
	for _, test := range []struct {
		name   string
		member initproto.Member
		status int
		line   string
	}{
		{"no such program", program("no-such-program", "x"), 127, "no-such-program: no such file or directory"},
		{"no such path", program("/no/such/program"), 127, "/no/such/program: no such file or directory"},
		{"not executable", program(plain), 126, plain + ": permission denied"},
		{"a directory", program(os.TempDir()), 126, os.TempDir() + ": permission denied"},
		{"no such directory", elsewhere, 126, elsewhere.Dir + ": no such directory"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			i := start(t, spec(test.member, shell("a", forever)))
			want := initproto.Exit{Status: test.status, Description: fmt.Sprintf("APP/PROC/WEB: Exited with status %d",
				test.status)}
			if got := i.end(); got != want {
				t.Errorf("exit is %+v, want %+v", got, want)
			}
			if got := i.lines(initproto.Stderr, 0); !slices.Equal(got, []string{test.line}) {
				t.Errorf("stderr is %q, want the line %q", got, test.line)
			}
			if got := i.lines(initproto.Stdout, 0); !slices.Equal(got, []string{fmt.Sprintf("Exit status %d", test.status)}) {
				t.Errorf("stdout is %q, want only the exit status %d", got, test.status)
			}
			if strings.Contains(i.transcript(), "started") {
				t.Errorf("transcript is %s, want no start", i.transcript())
			}
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 7000)
	for _, test := range []struct {
		name, script string
		out, err     []string
	}{
		{"both streams", "echo a; echo b >&2; echo c", []string{"a", "c"}, []string{"b"}},
		{"no line break at the end", "printf 'a\\nb'; printf c >&2", []string{"a", "b"}, []string{"c"}},
		{"any bytes", `printf 'a\000\377\r b\n\n'`, []string{"a\x00\xff\r b", ""}, nil},
		{"a long line", `printf 0123456789%.0s $(seq 7000)`, []string{long[:initproto.MaxLineSize],
			long[initproto.MaxLineSize:]}, nil},
		{"nothing", "true", nil, nil},
		{"its own environment", `echo $HOME; pwd; cat`, []string{os.TempDir(), os.TempDir()}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := spec(shell("web", test.script))
			s.OneOff = true
			i := start(t, s)
			if got := i.end(); got != (initproto.Exit{}) {
				t.Errorf("exit is %+v, want status 0 and no description", got)
			}
			out := append(slices.Clone(test.out), "Exit status 0")
			if got := i.lines(initproto.Stdout, 0); !slices.Equal(got, out) {
				t.Errorf("%.200q\nwant %.200q", got, out)
			}
			if got := i.lines(initproto.Stderr, 0); !slices.Equal(got, test.err) {
				t.Errorf("%.200q\nwant %.200q", got, test.err)
			}
		})
	}
}

// TestOutputOfAnOrphanDoesNotHoldUpTheExit has a child of the member keep the
// member's output open after it exited.
func TestOutputOfAnOrphanDoesNotHoldUpTheExit(t *testing.T) {
	t.Parallel()
	i := start(t, spec(
		shell("web", `sh -c 'trap "" TERM; while :; do sleep 1000; done' & trap 'printf last; exit 4' USR1; echo up; while :; do sleep 1000 & wait; done`),
		shell("a", `trap 'exit 0' USR1; trap '' TERM; echo up; while :; do sleep 1000 & wait; done`)))
	i.untilAll("o0 up", "o1 up")
	i.signal(syscall.SIGUSR1)
	i.until("v0 exited status=4")
	out := i.lines(initproto.Stdout, 0)
	if !slices.Equal(out, []string{"up", "last", "Exit status 4"}) {
		t.Errorf("stdout is %q, want up, last and exit status 4", out)
	}
	state, err := readState(i.dir)
	if err != nil || state.Phase != initproto.Stopping || state.Members[0].Status != 4 || state.Members[1].Exited {
		t.Fatalf("state is %+v, %v, want stopping, member 0 ended with status 4 and member 1 alive", state, err)
	}
	if err := syscall.Kill(state.Members[1].PID, syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got := i.end(); got != (initproto.Exit{Status: 4, Description: "APP/PROC/WEB: Exited with status 4"}) {
		t.Errorf("exit is %+v, want status 4 of APP/PROC/WEB", got)
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	for _, rate := range []int64{0, 1000} {
		s := spec(actor(t, "web", "lines 200"))
		s.OneOff, s.LogRate = true, rate
		i := start(t, s)
		i.end()
		passed := int64(len(i.lines(initproto.Stdout, 0)) - 1) // the exit is always recorded
		var lines, bytes int64
		for _, r := range i.records {
			if r.Kind == initproto.Event && body(r).Event == initproto.EventDropped {
				lines += body(r).Lines
				bytes += body(r).Bytes
			}
		}
		if lines+passed != 200 || bytes != lines*100 || rate == 0 && passed > 0 || rate > 0 && (passed < 10 || passed > 100) {
			t.Errorf("rate %d: %d passed, %d dropped, %d bytes", rate, passed, lines, bytes)
		}
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			i := start(t, spec(shell("web", `trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 1000 & wait; done`),
				shell("a", forever)))
			i.until("o0 up")
			i.signal(sig)
			if got := i.end(); got != (initproto.Exit{Status: 7, Stopped: true}) {
				t.Errorf("exit is %+v, want stopped with status 7", got)
			}
			if got := i.lines(initproto.Stdout, 0); !slices.Equal(got, []string{"up", "bye", "Exit status 7"}) {
				t.Errorf("stdout is %q, want up, bye and exit status 7", got)
			}
		})
	}
}

func TestStopWhatIsStubborn(t *testing.T) {
	t.Parallel()
	s := spec(shell("web", `trap '' TERM; echo up; while :; do sleep 1000; done`), shell("a", forever))
	s.Grace = 5 * time.Second // enough for the other one to end
	i := start(t, s)
	i.until("o0 up")
	begin := time.Now()
	i.signal(syscall.SIGTERM)
	i.until("v1 exited status=143 signaled cancelled")
	i.signal(syscall.SIGTERM) // has no effect
	if got := i.end(); got != (initproto.Exit{Status: 137, Stopped: true}) {
		t.Errorf("exit is %+v, want stopped with status 137", got)
	}
	if took := time.Since(begin); took < s.Grace {
		t.Errorf("killed after %s", took)
	}
	out := i.lines(initproto.Stdout, 0)
	if out[len(out)-1] != "Exit status 137 (exceeded 5s graceful shutdown interval)" {
		t.Errorf("stdout is %q, want status 137 and the exceeded interval as last line", out)
	}
	if !strings.Contains(i.transcript(), "v0 exited status=137 signaled cancelled overdue") {
		t.Errorf("transcript is %s, want an overdue exit with status 137", i.transcript())
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	t.Parallel()
	i := start(t, spec(
		shell("web", `trap 'echo hup' HUP; trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo winch' WINCH; trap 'echo quit' QUIT; echo up; while :; do sleep 1000 & wait; done`),
		shell("a", forever)))
	i.until("o0 up")
	for name, sig := range map[string]syscall.Signal{
		"hup": syscall.SIGHUP, "usr1": syscall.SIGUSR1, "usr2": syscall.SIGUSR2, "winch": syscall.SIGWINCH,
		"quit": syscall.SIGQUIT,
	} {
		i.signal(sig)
		i.until("o0 " + name)
	}
	i.signal(syscall.SIGTERM)
	if got := i.end(); got.Status != 143 || !got.Stopped {
		t.Errorf("exit is %+v, want stopped with status 143", got)
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	s := spec(shell("web", forever))
	s.OneOff, s.Timeout = true, 100*time.Millisecond
	if got := start(t, s).end(); got != (initproto.Exit{Status: 143, Description: "Timed out after 100ms"}) {
		t.Errorf("exit is %+v, want status 143 and a timeout after 100ms", got)
	}
}

// soon returns a check with short timeouts.
func soon(kind initproto.CheckKind, ports ...int) initproto.Check {
	return initproto.Check{Kind: kind, Ports: ports, Endpoint: "/", Invocation: limit, Interval: 10 * time.Millisecond}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	t.Run("never", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		s := spec(shell("web", forever))
		s.Health = soon(initproto.CheckPort, port)
		s.Health.Startup = 200 * time.Millisecond
		want := fmt.Sprintf("Instance never healthy after 200ms: port %d is not listening: connection refused", port)
		i := start(t, s)
		if got := i.end(); got != (initproto.Exit{Status: 143, Description: want}) {
			t.Errorf("exit is %+v, want status 143 and %q", got, want)
		}
		if !strings.Contains(i.transcript(), "v0 unhealthy ("+want+")") || strings.Contains(i.transcript(), "v0 healthy") {
			t.Errorf("transcript is %s, want unhealthy with %q and never healthy", i.transcript(), want)
		}
	})
	t.Run("another port", func(t *testing.T) {
		t.Parallel()
		port, other, sidecars := freePort(t), freePort(t), freePort(t)
		s := spec(actor(t, "web", fmt.Sprintf("listen %s:%d", loopback, other)),
			actor(t, "a", fmt.Sprintf("listen %s:%d", loopback, sidecars)))
		s.Health = soon(initproto.CheckPort, port)
		// A busy machine takes longer until the app listens at all.
		for s.Health.Startup = 2 * time.Second; ; s.Health.Startup *= 4 {
			refused := fmt.Sprintf("Instance never healthy after %s: port %d is not listening: connection refused",
				s.Health.Startup, port)
			want := refused + fmt.Sprintf(": the app listens on port %d instead; make it listen on the port in $PORT", other)
			if runtime.GOOS != "linux" {
				want = refused
			}
			got := start(t, s).end()
			if got.Description == refused && want != refused && s.Health.Startup < limit/4 {
				continue
			}
			if got.Description != want {
				t.Errorf("%+v\nwant %s", got, want)
			}
			break
		}
	})
	t.Run("another program's port", func(t *testing.T) {
		t.Parallel()
		if runtime.GOOS != "linux" {
			t.Skip("whose a socket is can be known on Linux only")
		}
		port := listener(t, loopback, "")
		s := spec(shell("web", forever))
		s.Health = soon(initproto.CheckPort, port)
		s.Health.Startup = 200 * time.Millisecond
		want := fmt.Sprintf("Instance never healthy after 200ms: port %d is not listening: another program on this machine "+
			"uses it", port)
		if got := start(t, s).end(); got.Description != want {
			t.Errorf("%+v\nwant %s", got, want)
		}
		for _, tc := range []struct {
			taken bool
			want  eventKind
		}{{false, evReady}, {true, evNotReady}} {
			ctx, stop := context.WithCancel(t.Context())
			posted := make(chan event, 1)
			go watchReadiness(ctx, soon(initproto.CheckPort, port), subject{taken: func(int) bool { return tc.taken }},
				func(e event) {
					select {
					case posted <- e:
					default:
					}
				})
			if e := <-posted; e.kind != tc.want {
				t.Errorf("event is %+v, want %d", e, tc.want)
			}
			stop()
		}
		if (&host{}).taken(port) {
			t.Error("the test's own port is taken by another program")
		}
	})
	t.Run("port", func(t *testing.T) {
		t.Parallel()
		port, other := freePort(t), freePort(t)
		address := fmt.Sprintf("%s:%d", loopback, port)
		s := spec(actor(t, "web", "listen "+address), actor(t, "a", fmt.Sprintf("listen %s:%d", loopback, other)))
		s.Health = soon(initproto.CheckPort, port, other)
		i := start(t, s)
		i.until("v0 started")
		i.until("v0 healthy")
		i.until("v0 ready")
		i.signal(syscall.SIGUSR1) // stop listening
		want := fmt.Sprintf("Instance became unhealthy: port %d is not listening: connection refused", port)
		if got := i.end(); got != (initproto.Exit{Status: 143, Description: want}) {
			t.Errorf("exit is %+v, want status 143 and %q", got, want)
		}
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		s := spec(actor(t, "web", fmt.Sprintf("serve %s:%d", loopback, port)))
		s.Health = soon(initproto.CheckHTTP, port)
		i := start(t, s)
		i.until("v0 healthy")
		i.signal(syscall.SIGUSR1)
		if got := i.end(); got != (initproto.Exit{Status: 143, Description: "Instance became unhealthy: HTTP status 500"}) {
			t.Errorf("exit is %+v, want status 143, unhealthy with HTTP status 500", got)
		}
	})
	t.Run("readiness", func(t *testing.T) {
		t.Parallel()
		port := freePort(t)
		s := spec(actor(t, "web", fmt.Sprintf("serve %s:%d", loopback, port)))
		s.Readiness = soon(initproto.CheckHTTP, port)
		i := start(t, s)
		i.until("v0 healthy")
		i.until("v0 ready")
		for range 3 {
			i.signal(syscall.SIGUSR1)
			i.until("v0 not-ready (HTTP status 500)")
			if state, err := readState(i.dir); err != nil || state.Ready || state.Phase != initproto.Running {
				t.Errorf("state is %+v, %v, want running and not ready", state, err)
			}
			i.signal(syscall.SIGUSR1)
			i.until("v0 ready")
		}
		i.signal(syscall.SIGTERM)
		if got := i.end(); !got.Stopped {
			t.Errorf("exit is %+v, want stopped", got)
		}
	})
}

// TestLinksLittle refuses imports that would make every instance larger. TLS is linked for
// agents.
func TestLinksLittle(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	for _, name := range []string{"net/http", "encoding/xml", "os/exec", "regexp", "log/slog", "text/template"} {
		if slices.Contains(linked, name) {
			t.Errorf("%s is linked", name)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, test := range []struct {
		args []string
		want int
	}{
		{nil, exitUsage},
		{[]string{"a", "b"}, exitUsage},
		{[]string{"--unknown", "a"}, exitUsage},
		{[]string{"--agent", "a"}, exitUsage},
		{[]string{"--agent"}, exitFailure}, // without its environment
		{[]string{empty}, exitFailure},
	} {
		cmd := exec.CommandContext(t.Context(), program, test.args...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.want || len(out) == 0 {
			t.Errorf("exit code of %q is %d, want %d and a message: %s", test.args, got, test.want, out)
		}
	}
}

func TestRecordsGoOnInTheSameDirectory(t *testing.T) {
	t.Parallel()
	i := start(t, spec(shell("web", "echo hello")))
	i.end()
	again := exec.CommandContext(t.Context(), program, i.dir)
	if out, err := again.CombinedOutput(); err != nil {
		t.Fatalf("second run in the same directory: %v: %s", err, out)
	}
	w, err := initproto.OpenWriter(filepath.Join(i.dir, initproto.RecordsDir), initproto.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * uint64(len(i.records)); w.Last() != want {
		t.Errorf("%d records, want %d", w.Last(), want)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
