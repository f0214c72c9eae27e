package sshd_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
)

func TestCommand(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	out, errs, err := w.run(c, `echo out; echo err >&2; echo "$HOME $WORD $EXTRA"; pwd; exit 7`)
	want := "out\n" + w.engine.home + " given more\n" + w.engine.home + "\n"
	if out != want || errs != "err\n" || exitStatus(err) != 7 {
		t.Errorf("%q %q %v, want %q", out, errs, err, want)
	}
	for status := range 3 {
		if _, _, err := w.run(c, fmt.Sprintf("exit %d", status)); exitStatus(err) != status {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

// TestCommandIsTakenLiterally sees that neither shell nor engine changes what
// the client sent.
func TestCommandIsTakenLiterally(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	for _, text := range []string{"{{home}}", "{{{{home}}}}", "{", "{{", "a  b\t$c `d` \\ \"e\" * ; # \n f", "ü€",
		strings.Repeat("x", 90_000)} {
		quoted := "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
		if out, errs, err := w.run(c, "printf %s "+quoted); err != nil || out != text {
			t.Errorf("%.40q became %.40q %q %v", text, out, errs, err)
		}
	}
	if out, _, err := w.run(c, `set -- a b; for x in "$@" ; do echo $x; done; x="1 2"; for y in $x; do echo $y; done`); out != "a\nb\n1\n2\n" || err != nil {
		t.Errorf("words are split as %q, %v", out, err)
	}
	for _, bad := range []string{"a\x00b", strings.Repeat("x", 200_000)} {
		if _, _, err := w.run(c, bad); err == nil || exitStatus(err) != -1 {
			t.Errorf("running %.10q: error is %v, want one without an exit status", bad, err)
		}
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.session(w.client())
	var out, errs bytes.Buffer
	s.Stdout, s.Stderr, s.Stdin = &out, &errs, strings.NewReader("echo hello; echo oops >&2; echo $0\nexit 3\n")
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	shell := "/bin/sh"
	if _, err := exec.LookPath("/bin/bash"); err == nil {
		shell = "/bin/bash"
	}
	if err := s.Wait(); exitStatus(err) != 3 || out.String() != "hello\n"+shell+"\n" || errs.String() != "oops\n" {
		t.Errorf("stdout %q, stderr %q, error %v, want the shell %s and status 3", out.String(), errs.String(), err, shell)
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.session(w.client())
	if err := s.RequestPty("xterm-256color", 43, 132,
		ssh.TerminalModes{ssh.ECHO: 1, ssh.TTY_OP_ISPEED: 115200}); err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("vt100", 1, 1, nil); err == nil {
		t.Error("a second terminal was given")
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	until := func(want string) {
		t.Helper()
		for {
			line, err := lines.ReadString('\n')
			if strings.Contains(line, want) {
				return
			}
			if err != nil {
				t.Fatalf("%q did not come: %v", want, err)
			}
		}
	}
	say := func(text string) {
		t.Helper()
		if _, err := io.WriteString(in, text); err != nil {
			t.Fatal(err)
		}
	}
	say("test -t 0 && test -t 1 && test -t 2 && echo is\"\"tty; echo \"[$TERM] <$(stty size)>\"\n")
	until("istty")
	until("[xterm-256color] <43 132>")
	say("trap 'echo \"resized <$(stty size)>\"' WINCH; echo trap\"\"ped\n")
	until("trapped")
	if err := s.WindowChange(50, 100); err != nil {
		t.Fatal(err)
	}
	// The request has no answer, but the next one on the channel has.
	if ok, err := s.SendRequest("no-such-thing", true, nil); ok || err != nil {
		t.Errorf("an unknown request: %t, %v", ok, err)
	}
	say("\n")
	until("resized <50 100>")
	// Control-C reaches what runs there, the end of input ends the shell.
	say("sh -c 'echo fore\"\"ground; exec sleep 1000'\n")
	until("foreground")
	say("\x03")
	say("echo after\"\"wards; exit 4\n")
	until("afterwards")
	if err := s.Wait(); exitStatus(err) != 4 {
		t.Errorf("Wait = %v", err)
	}
}

func TestTerminalEndOfInput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.session(w.client())
	if err := s.RequestPty("", 0, 0, nil); err != nil { // unknown sizes
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.Stdout, s.Stdin = &out, strings.NewReader("")
	if err := s.Run("stty size; cat; echo end"); err != nil || !strings.Contains(out.String(), "24 80\r\n") ||
		!strings.Contains(out.String(), "end\r\n") {
		t.Errorf("output is %q, %v, want 24 80 and end", out.String(), err)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	for _, x := range []struct {
		name, script string
		signal       ssh.Signal
		status       int
		by           string
	}{
		{"Trapped", `trap 'exit 6' TERM; echo ready; while :; do sleep 0.02; done`, ssh.SIGTERM, 6, ""},
		{"Untrapped", `echo ready; while :; do sleep 0.02; done`, ssh.SIGTERM, 143, "TERM"},
		{"Killed", `trap '' TERM; echo ready; while :; do sleep 0.02; done`, ssh.SIGKILL, 137, "KILL"},
		{"User", `trap 'exit 8' USR1; echo ready; while :; do sleep 0.02; done`, ssh.SIGUSR1, 8, ""},
	} {
		s := w.session(c)
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(x.script); err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
			t.Fatalf("%s: first line is %q, %v, want ready", x.name, line, err)
		}
		if err := s.Signal("NOSUCH"); err != nil {
			t.Fatal(err)
		}
		if err := s.Signal(x.signal); err != nil {
			t.Fatal(err)
		}
		err = s.Wait()
		var exit *ssh.ExitError
		if !errors.As(err, &exit) || exit.ExitStatus() != x.status || exit.Signal() != x.by {
			t.Errorf("%s: error is %v, want status %d, signal %s", x.name, err, x.status, x.by)
		}
	}
	// A signal that the client did not send is a status, which every client passes on.
	_, _, err := w.run(c, `kill -9 $$`)
	var exit *ssh.ExitError
	if !errors.As(err, &exit) || exit.ExitStatus() != 137 || exit.Signal() != "" {
		t.Errorf("killed by another: %v", err)
	}
}

func TestInputAndOutput(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.session(w.client())
	const size = 8 << 20
	content := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(content)
	var out bytes.Buffer
	s.Stdin, s.Stdout = bytes.NewReader(content), &out
	if err := s.Run("cat"); err != nil {
		t.Fatal(err)
	}
	if sha256.Sum256(out.Bytes()) != sha256.Sum256(content) {
		t.Errorf("%d bytes came back as %d others", size, out.Len())
	}
}

// TestClientThatDoesNotRead sees that a process waits for its client instead
// of filling our memory, that nothing is lost, and that others go on.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	s := w.session(c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	const size = 32 << 20
	if err := s.Start(fmt.Sprintf("head -c %d /dev/zero; echo after >&2; exit 5", size)); err != nil {
		t.Fatal(err)
	}
	const window = 4 << 20 // of the client, and what lies in between
	testkit.Eventually(w, "output", func() bool { return w.engine.read.Load() > 1<<20 })
	for range 5 {
		if out, _, err := w.run(c, "echo beside"); out != "beside\n" || err != nil {
			t.Fatalf("output is %q, %v, want beside", out, err)
		}
	}
	if n := w.engine.read.Load(); n > window {
		t.Errorf("%d bytes were read for a client that takes none", n)
	}
	n, err := io.Copy(io.Discard, out)
	if err := errors.Join(err, s.Wait()); n != size || exitStatus(err) != 5 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestClosingKills(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	for _, terminal := range []bool{false, true} {
		s := w.session(c)
		if terminal {
			if err := s.RequestPty("vt100", 24, 80, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Start("exec sleep 1000"); err != nil {
			t.Fatal(err)
		}
		if n := w.engine.running(); n != 1 {
			t.Fatalf("%d processes", n)
		}
		s.Close()
		testkit.Eventually(w, "the end of the process", func() bool { return w.engine.running() == 0 })
	}
	// The same when the client just disappears, in the middle of output.
	s := w.session(c)
	if err := s.Start("while :; do echo more; done"); err != nil {
		t.Fatal(err)
	}
	c.Close()
	testkit.Eventually(w, "the end of the process", func() bool { return w.engine.running() == 0 })
}

// TestBackgroundJob sees that a session ends with its process, though another
// has its output open.
func TestBackgroundJob(t *testing.T) {
	t.Parallel()
	w := setup(t)
	out, _, err := w.run(w.client(), "sleep 1000 & echo started; exit 2")
	if out != "started\n" || exitStatus(err) != 2 {
		t.Errorf("output is %q, %v, want started and status 2", out, err)
	}
	// One that still writes is heard until it is silent.
	out, _, err = w.run(w.client(), "(for i in 1 2 3 4 5; do sleep 0.1; echo $i; done) & exit 3")
	if out != "1\n2\n3\n4\n5\n" || exitStatus(err) != 3 {
		t.Errorf("output is %q, %v, want 1 to 5 and status 3", out, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	s := w.session(c)
	for name, ok := range map[string]bool{"LC_ALL": true, "_x9": true, "": false, "9a": false, "A=B": false, "A-B": false,
		"A B": false, "Ä": false, strings.Repeat("n", 300): false} {
		if err := s.Setenv(name, "value"); (err == nil) != ok {
			t.Errorf("setting %.20q: error is %v, want success %v", name, err, ok)
		}
	}
	if err := s.Setenv("ZERO", "a\x00b"); err == nil {
		t.Error("a zero byte was taken")
	}
	if err := s.Setenv("LC_ALL", "C.UTF-8"); err != nil { // the last one counts
		t.Error(err)
	}
	var out bytes.Buffer
	s.Stdout = &out
	if err := s.Run(`echo "$LC_ALL $_x9"`); err != nil || out.String() != "C.UTF-8 value\n" {
		t.Errorf("output is %q, %v, want C.UTF-8 value", out.String(), err)
	}

	s = w.session(c)
	for i := range 128 {
		if err := s.Setenv(fmt.Sprintf("V%d", i), "x"); err != nil {
			t.Fatalf("variable %d: %v", i, err)
		}
	}
	if err := s.Setenv("ONE_MORE", "x"); err == nil {
		t.Error("129 variables were taken")
	}
	s = w.session(c)
	if err := s.Setenv("LARGE", strings.Repeat("x", 70_000)); err == nil {
		t.Error("a large variable was taken")
	}
}

func TestOneProcessForAChannel(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.session(w.client())
	if err := s.Start("exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name    string
		payload []byte
	}{
		{"exec", ssh.Marshal(struct{ C string }{"true"})},
		{"shell", nil},
		{"subsystem", ssh.Marshal(struct{ C string }{"sftp"})},
		{"pty-req", ssh.Marshal(struct {
			T          string
			A, B, C, D uint32
			M          string
		}{T: "vt100"})},
		{"env", ssh.Marshal(struct{ N, V string }{"A", "b"})},
		{"window-change", ssh.Marshal(struct{ A, B, C, D uint32 }{1, 2, 3, 4})},
		{"x11-req", nil}, {"auth-agent-req@openssh.com", nil}, {"break", nil},
		{"signal", ssh.Marshal(struct{ N string }{"STOP"})}, {"signal", []byte{1}},
	} {
		if ok, err := s.SendRequest(r.name, true, r.payload); ok || err != nil {
			t.Errorf("request %s: ok is %t, %v, want false", r.name, ok, err)
		}
	}
	if n := w.engine.running(); n != 1 {
		t.Errorf("%d processes", n)
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := w.session(w.client())
	for _, name := range []string{"exec", "subsystem", "env", "pty-req", "window-change", "signal"} {
		for _, payload := range [][]byte{nil, {0}, {0xff, 0xff, 0xff, 0xff}, {0, 0, 0, 1, 'x', 0}} {
			if ok, err := s.SendRequest(name, true, payload); ok || err != nil {
				t.Errorf("request %s with %v: ok is %t, %v, want false", name, payload, ok, err)
			}
		}
	}
	for _, name := range []string{"shelly", "subsystem"} {
		if ok, _ := s.SendRequest(name, true, ssh.Marshal(struct{ N string }{"netconf"})); ok {
			t.Errorf("%s was taken", name)
		}
	}
	if n := w.engine.running(); n != 0 {
		t.Errorf("%d processes", n)
	}
}

func TestNothingCanBeStarted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.engine.fail = func(engine.ExecRequest) error { return errors.New("secret detail of the engine") }
	_, errs, err := w.run(w.client(), "true")
	if err == nil || exitStatus(err) != -1 {
		t.Errorf("Run = %v", err)
	}
	if strings.Contains(errs, "secret") || !strings.Contains(w.log.String(), "secret detail") {
		t.Errorf("the client reads %q", errs)
	}
}

// TestInstanceIsGone sees that connections to an instance end with it.
func TestInstanceIsGone(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, use := range []func(*ssh.Client){
		func(c *ssh.Client) { _, _, _ = w.run(c, "true") },
		func(c *ssh.Client) { _, _ = c.Dial("tcp", "127.0.0.1:1") },
	} {
		w.engine.gone.Store(false)
		c := w.client()
		w.engine.gone.Store(true)
		use(c)
		_ = c.Wait()
	}
}

func TestManyChannels(t *testing.T) {
	t.Parallel()
	w := setup(t)
	address := echoServer(t)
	c := w.client()
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			if i%2 == 0 {
				conn, err := c.Dial("tcp", address)
				if err != nil {
					t.Errorf("channel %d: %v", i, err)
					return
				}
				defer conn.Close()
				text := strings.Repeat(fmt.Sprintf("channel %d ", i), 10_000)
				go func() {
					_, _ = io.WriteString(conn, text)
					_ = conn.(interface{ CloseWrite() error }).CloseWrite()
				}()
				if b, err := io.ReadAll(conn); err != nil || string(b) != text {
					t.Errorf("channel %d: %d bytes, %v", i, len(b), err)
				}
				return
			}
			out, _, err := w.run(c, fmt.Sprintf("echo %d; exit %d", i, i))
			if out != fmt.Sprintf("%d\n", i) || exitStatus(err) != i {
				t.Errorf("channel %d: %q %v", i, out, err)
			}
		})
	}
	all.Wait()
}

// TestSubsystem sees which sftp server is chosen.
func TestSubsystem(t *testing.T) {
	t.Parallel()
	w := setup(t)
	bin := filepath.Join(w.engine.home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	ask := func() (errs string, status uint32) {
		channel, requests, err := w.client().OpenChannel("session", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer channel.Close()
		if ok, err := channel.SendRequest("subsystem", true, ssh.Marshal(struct{ N string }{"sftp"})); !ok {
			t.Fatalf("refused: %v", err)
		}
		b, _ := io.ReadAll(channel.Stderr())
		for r := range requests {
			if r.Type == "exit-status" {
				status = binary.BigEndian.Uint32(r.Payload)
			}
		}
		return string(b), status
	}
	if _, err := exec.LookPath("/usr/lib/openssh/sftp-server"); err != nil {
		if errs, status := ask(); status != 127 || !strings.Contains(errs, "no sftp-server in this instance") {
			t.Errorf("without a server: %q %d", errs, status)
		}
		testkit.WriteProgram(t, filepath.Join(bin, "sftp-server"), "#!/bin/sh\nexit 41\n")
		if errs, status := ask(); status != 41 {
			t.Errorf("in the path: %q %d", errs, status)
		}
	}
}
