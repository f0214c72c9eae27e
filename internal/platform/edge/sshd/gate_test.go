package sshd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/sshd"
)

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		s, err := sshd.New(sshd.Config{Listener: listen(t), HostKeyFile: filepath.Join(t.TempDir(), "key"),
			Engine: &localEngine{}, Authorizer: &fakeAuthorizer{}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func TestHooks(t *testing.T) {
	t.Parallel()
	w := setup(t)
	c := w.client()
	w.event("authorized " + theUser + " " + theApp + " " + theProcess)
	w.event("Successful remote access by ADDR")
	c.Close()
	w.event("Remote access ended for ADDR")

	if _, err := w.dialAs(theName, "known"); err == nil {
		t.Fatal("let in")
	}
	w.event("unauthorized " + theUser + " " + theApp + ": she is no developer")
	if _, err := w.dialAs(theName, "nonsense"); err == nil {
		t.Fatal("let in")
	}
	w.event("unauthorized  : that code is wrong")
	// Who is not known to be wrong is not accused.
	if _, err := w.dialAs(theName, "broken"); err == nil {
		t.Fatal("let in")
	}
	w.server.Stop()
	if len(w.events) != 0 {
		t.Errorf("event %q", <-w.events)
	}
	if !strings.Contains(w.log.String(), errBroken.Error()) {
		t.Error("the log does not say that authorization failed")
	}
}

// TestRefusalsAreAlike sees that a client learns nothing from being refused.
func TestRefusalsAreAlike(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var said []string
	for _, x := range [][2]string{
		{theName, "nonsense"}, {theName, "known"}, {theName, "broken"}, {theName, ""},
		{"root", theCode}, {"", theCode}, {"cf:", theCode}, {"cf:" + theProcess, theCode},
		{"cf:" + theProcess + "/", theCode},
		{"cf:" + theProcess + "/-1", theCode}, {"cf:" + theProcess + "/0x1", theCode},
		{"cf:" + theProcess + "/1234567", theCode},
		{"cf:../x/0", theCode}, {"CF:" + theProcess + "/0", theCode}, {"diego:" + theProcess + "/0", theCode},
	} {
		c, err := w.dialAs(x[0], x[1])
		if err == nil {
			c.Close()
			t.Errorf("%q was let in with %q", x[0], x[1])
			continue
		}
		said = append(said, err.Error())
	}
	for _, text := range said {
		if text != said[0] || strings.Contains(text, "developer") || strings.Contains(text, "fire") {
			t.Errorf("the client reads %q", text)
		}
	}
	for _, reason := range []string{"she is no developer", "that code is wrong", errBroken.Error(),
		"user name is not cf:PROCESS-GUID/INDEX"} {
		if !strings.Contains(w.log.String(), reason) {
			t.Errorf("the log does not say %q", reason)
		}
	}
	for _, secret := range []string{"nonsense", theCode} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log has the password %q", secret)
		}
	}
	if n := w.door.calls.Load(); n != 4 {
		t.Errorf("the authorizer was asked %d times", n)
	}
}

// TestRefusalSaysWhy sees that an authenticated user learns the reason of a refusal.
func TestRefusalSaysWhy(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.door.decide = func(code string, _ int) (sshd.Session, error) {
		return sshd.Session{UserGUID: theUser, AppGUID: theApp}, map[string]error{
			"switch":    fault.New(fault.FeatureDisabled, "ssh is disabled for the app"),
			"state":     fault.New(fault.Unprocessable, "the app is stopped"),
			"forbidden": fault.New(fault.Forbidden, "she is no developer"),
			"broken":    errBroken,
		}[code]
	}
	for code, want := range map[string]string{
		"switch": "refused: ssh is disabled for the app\r\n", "state": "refused: the app is stopped\r\n", "forbidden": "",
		"broken": "",
	} {
		var banner string
		c, err := ssh.Dial("tcp", w.server.Addr().String(), &ssh.ClientConfig{
			User: theName, Auth: []ssh.AuthMethod{ssh.Password(code)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
			BannerCallback: func(text string) error { banner += text; return nil },
		})
		if err == nil {
			c.Close()
			t.Errorf("%s: let in", code)
		}
		if banner != want {
			t.Errorf("%s: the client reads %q, want %q", code, banner, want)
		}
	}
}

// TestTries sees that a connection has three tries, with a password only.
func TestTries(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tries := 0
	config := &ssh.ClientConfig{
		User: theName, HostKeyCallback: ssh.InsecureIgnoreHostKey(),
		Auth: []ssh.AuthMethod{ssh.RetryableAuthMethod(ssh.PasswordCallback(func() (string, error) {
			tries++
			return "wrong", nil
		}), 100)},
	}
	if _, err := ssh.Dial("tcp", w.server.Addr().String(), config); err == nil || w.door.calls.Load() != 3 {
		t.Errorf("%d tries, the authorizer saw %d: %v", tries, w.door.calls.Load(), err)
	}
	// The third one may be right.
	tries = 0
	config.Auth = []ssh.AuthMethod{ssh.RetryableAuthMethod(ssh.PasswordCallback(func() (string, error) {
		if tries++; tries == 3 {
			return theCode, nil
		}
		return "wrong", nil
	}), 100)}
	c, err := ssh.Dial("tcp", w.server.Addr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	config.Auth = []ssh.AuthMethod{ssh.KeyboardInteractive(func(string, string, []string,
		[]bool) ([]string, error) {
		return nil, nil
	})}
	if _, err := ssh.Dial("tcp", w.server.Addr().String(), config); err == nil ||
		!strings.Contains(err.Error(), "no supported methods remain") {
		t.Errorf("another method: %v", err)
	}
}

func TestGuessingIsSlowedDown(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := setup(t, withClock(clock), withLimits(sshd.Limits{AddressBurst: 3, AddressEvery: time.Minute, ProcessBurst: 5,
		ProcessEvery: time.Hour}))
	guess := func(process, code string) int32 {
		t.Helper()
		before := w.door.calls.Load()
		c, err := w.dialAs("cf:"+process+"/0", code)
		if err == nil {
			c.Close()
		}
		if (err == nil) != (code == theCode && w.door.calls.Load() > before) {
			t.Errorf("with %q: %v", code, err)
		}
		return w.door.calls.Load() - before
	}
	// Neither right codes nor our own failures use anything up.
	for range 10 {
		if guess("a", theCode) != 1 || guess("a", "broken") != 1 {
			t.Fatal("not asked")
		}
	}
	for range 3 {
		if guess("a", "wrong") != 1 {
			t.Error("a first guess is not even looked at")
		}
	}
	if guess("a", "wrong") != 0 || guess("b", "wrong") != 0 || guess("b", theCode) != 0 {
		t.Error("an address can go on guessing")
	}
	clock.Advance(time.Minute)
	if guess("a", "wrong") != 1 || guess("a", "wrong") != 0 {
		t.Error("one more minute, one more try")
	}
}

// Wrong passwords for a process from many addresses are slowed down, but not
// those who were let in before.
func TestGuessingFromManyAddresses(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := setup(t, withClock(clock), withLimits(sshd.Limits{AddressBurst: 3, AddressEvery: time.Minute, ProcessBurst: 5,
		ProcessEvery: time.Hour}))
	try := func(address, code string) (asked bool, err error) {
		before := w.door.calls.Load()
		c, err := w.dialFrom(address, theName, code)
		if err == nil {
			c.Close()
		}
		return w.door.calls.Load() > before, err
	}
	if _, err := try("127.0.0.2", theCode); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if asked, err := try(fmt.Sprint("127.0.1.", i+1), "wrong"); !asked || err == nil {
			t.Fatalf("guess %d: asked %v, %v", i, asked, err)
		}
	}
	if asked, _ := try("127.0.1.9", "wrong"); asked {
		t.Error("the process can be guessed at without end")
	}
	if _, err := try("127.0.0.2", theCode); err != nil {
		t.Errorf("an address that was let in before: %v", err)
	}
}

// Clients that only occupy a handshake slot make room for others.
func TestArrivalsMakeRoom(t *testing.T) {
	t.Parallel()
	w := setup(t, withClock(newClock()), withLimits(sshd.Limits{Handshakes: 8}))
	for i := range 8 {
		conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(fmt.Sprint("127.0.1.", i%4+1))}}).
			Dial("tcp", w.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		// The server speaks first, when the client has a slot.
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		c, err := w.dialFrom("127.0.0.2", theName, theCode)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

func TestSessionLimits(t *testing.T) {
	t.Parallel()
	var user atomic.Int32
	for name, x := range map[string]struct {
		limits sshd.Limits
		users  bool // each session has another
		reason string
	}{
		"Server":   {sshd.Limits{Sessions: 3}, true, "there are 3"},
		"Instance": {sshd.Limits{InstanceSessions: 3}, true, "the instance has 3"},
		"User":     {sshd.Limits{UserSessions: 3}, false, "the user has 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := setup(t, withLimits(x.limits))
			if x.users {
				w.door.user = func() string { return "user " + string('a'+user.Add(1)%26) }
			}
			var open []*ssh.Client
			for range 3 {
				open = append(open, w.client())
			}
			for range 2 {
				if _, err := w.dialAs(theName, theCode); err == nil || strings.Contains(err.Error(), "has 3") {
					t.Fatalf("a fourth: %v", err)
				}
			}
			if !strings.Contains(w.log.String(), x.reason) {
				t.Errorf("the log does not say %q", x.reason)
			}
			open[1].Close()
			testkit.Eventually(w, "room for another", func() bool {
				c, err := w.dialAs(theName, theCode)
				if err == nil {
					defer c.Close()
				}
				return err == nil
			})
		})
	}
}

func TestChannelLimit(t *testing.T) {
	t.Parallel()
	w := setup(t, withLimits(sshd.Limits{Channels: 4}))
	c := w.client()
	var open []*ssh.Session
	for range 4 {
		open = append(open, w.session(c))
	}
	var refused *ssh.OpenChannelError
	if _, err := c.NewSession(); !errors.As(err, &refused) || refused.Reason != ssh.ResourceShortage {
		t.Errorf("a fifth: %v", err)
	}
	open[0].Close()
	testkit.Eventually(w, "room for another", func() bool {
		s, err := c.NewSession()
		if err == nil {
			s.Close()
		}
		return err == nil
	})
}

func TestIdleTimeout(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := setup(t, withClock(clock), withLimits(sshd.Limits{IdleTimeout: 10 * time.Minute}))
	c := w.client()
	s := w.session(c)
	if err := s.Start("exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	keepAlive := func(name string, want bool) {
		t.Helper()
		if ok, _, err := c.SendRequest(name, true, nil); ok != want || err != nil {
			t.Errorf("request %s: ok is %t, %v, want %t", name, ok, err, want)
		}
	}
	for range 5 {
		clock.Advance(9 * time.Minute)
		keepAlive("keepalive@cloudfoundry.org", true)
	}
	clock.Advance(9 * time.Minute)
	keepAlive("keepalive@openssh.com", true)
	keepAlive("tcpip-forward", false)
	keepAlive("no-such-request", false)
	if n := w.engine.running(); n != 1 {
		t.Fatalf("%d processes", n)
	}
	clock.Advance(10 * time.Minute)
	if err := c.Wait(); err == nil {
		t.Error("the connection goes on")
	}
	testkit.Eventually(w, "the end of the process", func() bool { return w.engine.running() == 0 })
	testkit.Eventually(w, "the end of all timers", func() bool { return clock.Timers() == 0 })
}

// TestSlowHandshake sees that who says nothing is not waited for.
func TestSlowHandshake(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := setup(t, withClock(clock), withLimits(sshd.Limits{HandshakeTimeout: time.Second}))
	for _, says := range []string{"", "SSH-2.0-x", "SSH-2.0-x\r\n"} {
		conn, err := net.Dial("tcp", w.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, says)
		testkit.Eventually(w, "the connection to be accepted", func() bool { return clock.Timers() == 1 })
		clock.Advance(time.Second)
		if _, err := io.Copy(io.Discard, conn); err != nil && !isReset(err) {
			t.Error(err)
		}
		conn.Close()
	}
	w.client() // and others come in
}

func isReset(err error) bool { return strings.Contains(err.Error(), "reset") }

func TestTooManyArrive(t *testing.T) {
	t.Parallel()
	clock := newClock()
	w := setup(t, withClock(clock), withLimits(sshd.Limits{Handshakes: 8}))
	var all []net.Conn
	for range 3 { // one address may have two
		conn, err := net.Dial("tcp", w.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		all = append(all, conn)
	}
	if b, err := io.ReadAll(all[2]); len(b) != 0 || err != nil && !isReset(err) {
		t.Errorf("the third got %q, %v", b, err)
	}
	all[0].Close()
	testkit.Eventually(w, "room for another", func() bool {
		c, err := w.dialAs(theName, theCode)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func TestStopEndsSessions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	address := echoServer(t)
	var all sync.WaitGroup
	for range 5 {
		c := w.client()
		s := w.session(c)
		if err := s.Start("while :; do echo more; done"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
		all.Go(func() { _ = c.Wait() })
	}
	silent, err := net.Dial("tcp", w.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	w.server.Stop()
	if n := w.engine.running(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	all.Wait()
	if _, err := w.dialAs(theName, theCode); err == nil {
		t.Error("a client was accepted afterwards")
	}
	ended := 0
	for len(w.events) > 0 {
		if strings.HasPrefix(<-w.events, "Remote access ended") {
			ended++
		}
	}
	if ended != 5 {
		t.Errorf("%d ends were told", ended)
	}
}

// TestStopWhileAuthorizing sees that a slow authorizer does not hold up Stop
// for longer than it looks at its context.
func TestStopWhileAuthorizing(t *testing.T) {
	t.Parallel()
	waiter := make(waitingDoor, 1)
	w := setup(t, func(c *sshd.Config) { c.Authorizer = waiter })
	failed := make(chan error, 1)
	go func() {
		_, err := w.dialAs(theName, theCode)
		failed <- err
	}()
	<-waiter
	w.server.Stop()
	if err := <-failed; err == nil {
		t.Error("let in")
	}
}

type waitingDoor chan struct{}

func (d waitingDoor) Authorize(ctx context.Context, _, _ string, _ int, _ net.Addr) (sshd.Session, error) {
	d <- struct{}{}
	<-ctx.Done()
	return sshd.Session{}, ctx.Err()
}

func TestPanicEndsOneConnection(t *testing.T) {
	t.Parallel()
	w := setup(t)
	other := w.client()
	w.door.decide = func(string, int) (sshd.Session, error) { panic("made up") }
	if _, err := w.dialAs(theName, theCode); err == nil {
		t.Error("let in")
	}
	if out, _, err := w.run(other, "echo still here"); out != "still here\n" || err != nil {
		t.Errorf("output is %q, %v, want still here", out, err)
	}
	testkit.Eventually(w, "a line in the log", func() bool { return strings.Contains(w.log.String(), "made up") })
}

func TestNewNeedsEverything(t *testing.T) {
	t.Parallel()
	whole := sshd.Config{Listener: listen(t), HostKeyFile: filepath.Join(t.TempDir(), "key"), Engine: &localEngine{},
		Authorizer: &fakeAuthorizer{}}
	for name, change := range map[string]func(*sshd.Config){
		"Listener":   func(c *sshd.Config) { c.Listener = nil },
		"Key":        func(c *sshd.Config) { c.HostKeyFile = "" },
		"Engine":     func(c *sshd.Config) { c.Engine = nil },
		"Authorizer": func(c *sshd.Config) { c.Authorizer = nil },
		"KeyFolder":  func(c *sshd.Config) { c.HostKeyFile = filepath.Join(c.HostKeyFile, "no", "folder") },
	} {
		c := whole
		change(&c)
		if _, err := sshd.New(c); err == nil {
			t.Errorf("without %s it is made", name)
		}
	}
}

// first is what clients of other protocols, broken ones and liars begin with.
var first = []string{
	"", "\x00", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "SSH-1.5-old\r\n", "SSH-2.0-\r\n", "SSH-2.0-x\r\n\x00\x00\x00\x00",
	"SSH-2.0-x\r\n\xff\xff\xff\xff\xff", "SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14aaaaaaaaaaaaaaaa",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	strings.Repeat("x", 70_000), "SSH-2.0-" + strings.Repeat("x", 70_000), strings.Repeat("hello\r\n", 10_000),
}

func TestGarbage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, text := range first {
		garbage(t, w.server.Addr().String(), []byte(text))
	}
	if out, _, err := w.run(w.client(), "echo fine"); out != "fine\n" || err != nil {
		t.Errorf("output is %q, %v, want fine", out, err)
	}
}

// garbage says something and waits for the server to hang up.
func garbage(t *testing.T, address string, text []byte) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, bytes.NewReader(text))
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(io.Discard, conn)
}
