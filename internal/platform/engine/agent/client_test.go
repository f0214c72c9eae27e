//go:build linux

package agent_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/engine/agent/agenttest"
	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/agentserver"
	"ingot/internal/platform/instance/initproto"
)

func TestLaunch(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	if _, launched, err := w.State(within(t)); launched || err != nil {
		t.Errorf("before the launch: launched %t, %v", launched, err)
	}
	for name, call := range map[string]func() error{
		"records": func() error {
			s, err := w.Records(within(t), 0)
			if err == nil {
				_, err = s.Next()
			}
			return err
		},
		"exec":    func() error { _, err := w.Exec(within(t), engine.ExecRequest{Args: []string{"true"}}); return err },
		"dial":    func() error { _, err := w.Dial(within(t), "tcp", "127.0.0.1:1"); return err },
		"collect": func() error { return w.Collect(within(t), ".", io.Discard) },
		"usage":   func() error { _, err := w.Usage(within(t)); return err },
	} {
		if err := call(); !errors.Is(err, agent.ErrNotLaunched) {
			t.Errorf("%s before the launch: %v, want %v", name, err, agent.ErrNotLaunched)
		}
	}
	facts, err := w.Launch(within(t), launch(archive("file", "content")))
	if err != nil || facts.Home != w.home || facts.UID != os.Getuid() {
		t.Fatalf("facts %+v, %v, want home %s and user %d", facts, err, w.home, os.Getuid())
	}
	if b, err := os.ReadFile(filepath.Join(w.home, "app", "file")); string(b) != "content" {
		t.Errorf("the file has %q, %v", b, err)
	}
	// A launch that is sent again changes nothing.
	if _, err := w.Launch(within(t), launch(archive("file", "other"))); !errors.Is(err, agent.ErrLaunched) {
		t.Errorf("a second launch: %v, want %v", err, agent.ErrLaunched)
	}
	if b, _ := os.ReadFile(filepath.Join(w.home, "app", "file")); string(b) != "content" {
		t.Errorf("the second launch changed the file to %q", b)
	}
	if state, launched, err := w.State(within(t)); !launched || err != nil || state.Phase != initproto.Starting {
		t.Errorf("state %+v, launched %t, %v", state, launched, err)
	}
	var got bytes.Buffer
	if err := w.Collect(within(t), "{{home}}/app", &got); err != nil || !strings.Contains(got.String(), "content") {
		t.Errorf("collected %q, %v", got.String(), err)
	}
	if err := w.Collect(within(t), "nothing", io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("collecting nothing: %v, want %v", err, os.ErrNotExist)
	}
	if err := w.Collect(within(t), "../..", io.Discard); err == nil {
		t.Error("it collects files outside of home")
	}
	if u, err := w.Usage(within(t)); err != nil || u.MemoryLimit != 64<<20 {
		t.Errorf("usage %+v, %v", u, err)
	}
}

// TestHalfLaunch: a launch that is not complete is forgotten.
func TestHalfLaunch(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	cut := errors.New("the blob store failed")
	broken := func(open func(r io.Reader) io.Reader) engine.Archive {
		a := archive("half", strings.Repeat("x", 1<<20))
		whole := a.Open
		a.Open = func() (io.ReadCloser, error) {
			r, err := whole()
			return io.NopCloser(open(r)), err
		}
		return a
	}
	for name, l := range map[string]agent.Launch{
		"read error": launch(archive("file", "x"),
			broken(func(r io.Reader) io.Reader { return io.MultiReader(io.LimitReader(r, 100_000), iotestErr{cut}) })),
		"cut": launch(archive("file", "x"), broken(func(r io.Reader) io.Reader { return io.LimitReader(r, 100_000) })),
		"too large": func() agent.Launch {
			l := launch(archive("file", strings.Repeat("x", 1000)))
			l.Limits.Disk = 999
			return l
		}(),
		"no members": {Spec: initproto.Spec{Instance: id}},
		"other":      func() agent.Launch { l := launch(); l.Spec.Instance = "other"; return l }(),
		"large, late": launch(broken(func(io.Reader) io.Reader {
			return strings.NewReader(strings.Repeat("not a tar",
				1<<20))
		})),
	} {
		_, err := w.Launch(within(t), l)
		if err == nil || errors.Is(err, agent.ErrLaunched) {
			t.Fatalf("%s: %v, want another error", name, err)
		}
		if name == "too large" && !fault.Is(err, fault.Unprocessable) {
			t.Errorf("%s: %v, want %v", name, err, fault.Unprocessable)
		}
		if name == "read error" && !errors.Is(err, cut) {
			t.Errorf("%s: %v, want %v", name, err, cut)
		}
		awaitWaiting(t, w)
		if left := entries(t, w.home); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	// By hand: the connection ends before the last frame, or the checksum is wrong.
	for name, end := range map[string]func(*agentproto.Conn) error{
		"no end": func(c *agentproto.Conn) error { return c.Close() },
		"checksum": func(c *agentproto.Conn) error {
			return c.SendJSON(agentproto.End, agentproto.Sum{Size: 1, SHA256: []byte("x")})
		},
		"order": func(c *agentproto.Conn) error { return c.Send(agentproto.Stdout, []byte("x")) },
		"too long": func(c *agentproto.Conn) error {
			_ = c.Send(agentproto.Data, make([]byte, agentproto.MaxFrame+1)) // the agent may close the connection before its end
			return nil
		},
	} {
		c := w.connect(agentproto.ForLaunch)
		err := errors.Join(
			c.SendJSON(agentproto.Document,
				agentproto.Launch{Spec: []byte(`{"instance":"instance-1","members":[{"name":"web","args":["true"]}]}`)}),
			c.SendJSON(agentproto.Document, agentproto.Archive{Target: "app"}),
			c.Send(agentproto.Data, make([]byte, 1000)),
			end(c),
		)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		awaitWaiting(t, w)
		if left := entries(t, w.home); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	w.launch()
}

type iotestErr struct{ err error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.err }

// awaitWaiting waits until the agent has forgotten a launch: then another one is refused
// only for its own fault.
func awaitWaiting(t *testing.T, w *world) {
	t.Helper()
	for ctx := within(t); ; {
		_, err := w.Launch(ctx, agent.Launch{})
		if !errors.Is(err, agent.ErrLaunched) {
			return
		}
		if ctx.Err() != nil {
			t.Fatal("the launch is not forgotten")
		}
	}
}

// TestConcurrentLaunch: while one launch is in progress, another waits for its result.
func TestConcurrentLaunch(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	reading, proceed := make(chan struct{}), make(chan struct{})
	slow := archive("file", "first")
	open := slow.Open
	slow.Open = func() (io.ReadCloser, error) {
		close(reading)
		<-proceed
		return open()
	}
	result := make(chan error, 1)
	go func() {
		_, err := w.Launch(within(t), launch(slow))
		result <- err
	}()
	<-reading
	c := w.connect(agentproto.ForLaunch)
	if _, _, err := c.Receive(agentproto.MaxFrame); !errors.Is(err, &agentproto.Error{Code: agentproto.Launching}) {
		t.Errorf("a launch during another: %v, want code %d", err, agentproto.Launching)
	}
	second := make(chan error, 1)
	go func() {
		_, err := w.Launch(within(t), launch(archive("file", "second")))
		second <- err
	}()
	close(proceed)
	if err := <-second; !errors.Is(err, agent.ErrLaunched) {
		t.Errorf("the second launch: %v, want %v", err, agent.ErrLaunched)
	}
	if err := <-result; err != nil {
		t.Errorf("the first launch: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(w.home, "app", "file")); string(b) != "first" {
		t.Errorf("the file has %q, want that of the first launch", b)
	}
}

func TestLaunchCancelled(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	ctx, cancel := context.WithCancel(within(t))
	a := archive("file", "x")
	open := a.Open
	a.Open = func() (io.ReadCloser, error) { cancel(); return open() }
	if _, err := w.Launch(ctx, launch(a)); !errors.Is(err, context.Canceled) {
		t.Errorf("Launch: %v, want %v", err, context.Canceled)
	}
	awaitWaiting(t, w)
	w.launch()
}

// TestNotLaunched: an agent that is not launched leaves, when its time is over, when it is
// told to stop, and on a signal.
func TestNotLaunched(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait time.Duration
		end  func(*world) error
	}{
		"time":   {wait: 10 * time.Millisecond},
		"stop":   {end: func(w *world) error { return w.Stop(within(t), false) }},
		"signal": {end: func(w *world) error { w.stop <- syscall.SIGTERM; return nil }},
	} {
		w := listen(t, func(config *agentserver.Config) { config.LaunchTime = c.wait })
		if c.end != nil {
			if err := c.end(w); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if l := <-w.launched; l != nil {
			t.Errorf("%s: it was launched", name)
		}
		if _, err := w.Launch(within(t), launch()); !errors.Is(err, agent.ErrLaunched) {
			t.Errorf("%s: a late launch: %v, want %v", name, err, agent.ErrLaunched)
		}
	}
}

// TestStrangers: only servers of the installation get an answer.
func TestStrangers(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	foreign, err := agent.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := foreign.Client("server")
	if err != nil {
		t.Fatal(err)
	}
	own, err := w.authority.Client("server")
	if err != nil {
		t.Fatal(err)
	}
	seed := agent.Seed(agenttest.InstallKey, id)
	// What a stolen seed is worth: the agent's own certificate.
	ofAgent, err := agentproto.ServerConfig(seed, w.authority.Certificate())
	if err != nil {
		t.Fatal(err)
	}
	secret := w.authority.Bytes()
	for name, c := range map[string]tls.Certificate{
		"none":       {},
		"foreign":    stranger,
		"the agent":  ofAgent.Certificates[0],
		"server use": issue(t, secret, x509.ExtKeyUsageServerAuth, time.Now().Add(time.Hour)),
		"expired":    issue(t, secret, x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute)),
		"other key":  {Certificate: own.Certificate, PrivateKey: stranger.PrivateKey},
	} {
		client := w.dialer(&c).At(id, agenttest.Port(w.ip), agenttest.Key(id))
		if _, _, err := client.State(within(t)); err == nil {
			t.Errorf("%s: the agent answers", name)
		}
	}
	for name, client := range map[string]*agent.Client{
		"key":      w.dialer(nil).At(id, agenttest.Port(w.ip), agenttest.Key("other")),
		"no key":   w.dialer(nil).At(id, agenttest.Port(w.ip), nil),
		"instance": w.dialer(nil).At("other", agenttest.Port(w.ip), agenttest.Key(id)),
	} {
		if _, _, err := client.State(within(t)); !errors.Is(err, agent.ErrWrongAgent) {
			t.Errorf("%s: %v, want %v", name, err, agent.ErrWrongAgent)
		}
	}
	old := agentproto.ClientConfig(own, agenttest.Key(id))
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if c, err := tls.Dial("tcp", agenttest.Port(w.ip), old); err == nil {
		c.Close()
		t.Error("the agent speaks TLS 1.2")
	}
	if _, _, err := w.State(within(t)); err != nil {
		t.Errorf("a server of the installation: %v", err)
	}
}

// issue returns a certificate of the authority that agents must refuse.
func issue(t *testing.T, authority []byte, usage x509.ExtKeyUsage, until time.Time) tls.Certificate {
	t.Helper()
	key := ed25519.NewKeyFromSeed(authority[:ed25519.SeedSize])
	ca, err := x509.ParseCertificate(authority[ed25519.SeedSize:])
	if err != nil {
		t.Fatal(err)
	}
	public, own, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(5), Subject: pkix.Name{CommonName: "x"}, NotBefore: until.Add(-time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, ca, public, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: own}
}

// TestSilentStrangers: connections that say nothing do not keep servers out.
func TestSilentStrangers(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(agenttest.Address())}}
	for range 100 {
		c, err := d.Dial("tcp", agenttest.Port(w.ip))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	if _, _, err := w.State(within(t)); err != nil {
		t.Errorf("a server while strangers hold connections: %v", err)
	}
}

// TestNonsense: requests that break the protocol are refused, and the agent goes on.
func TestNonsense(t *testing.T) {
	t.Parallel()
	w := listen(t, nil)
	w.launch()
	for _, p := range []agentproto.Purpose{agentproto.ForRecords, agentproto.ForExec, agentproto.ForDial,
		agentproto.ForCollect, agentproto.ForStop} {
		for _, nonsense := range [][]byte{
			{0}, {255, 0, 0, 0, 1, 1}, {byte(agentproto.Document), 0xff, 0xff, 0xff, 0xff},
			agentproto.AppendFrame(nil, agentproto.Document, []byte("no JSON")),
			agentproto.AppendFrame(nil, agentproto.Data, []byte("x")), agentproto.AppendFrame(nil, agentproto.Ack, []byte("x")),
		} {
			c := w.connect(p)
			if _, err := c.Write(nonsense); err != nil {
				t.Errorf("%s: %v", p, err)
			}
			if raw, ok := c.Conn.(*tls.Conn); ok {
				_ = raw.CloseWrite()
			}
			if kind, _, err := c.Receive(agentproto.MaxFrame); err == nil {
				t.Errorf("%s: %v is answered with type %d", p, nonsense, kind)
			}
			c.Close()
		}
	}
	if _, _, err := w.State(within(t)); err != nil {
		t.Errorf("after all that: %v", err)
	}
}
