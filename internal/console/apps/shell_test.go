package apps

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"ingot/internal/base/testkit"
	"ingot/internal/console/page"
	"ingot/internal/console/pagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeGateway is an ssh server with one user, whose shell repeats its input.
type fakeGateway struct {
	t       *testing.T
	config  *ssh.ServerConfig
	key     ssh.PublicKey
	remote  chan string
	refused string // shown to a client that is refused
	closed  chan struct{}
	work    sync.WaitGroup
}

const testCode = "one-time-code"

func newFakeGateway(t *testing.T) *fakeGateway {
	t.Helper()
	g := &fakeGateway{t: t, remote: make(chan string, 10), closed: make(chan struct{}, 10)}
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	g.key = signer.PublicKey()
	g.config = &ssh.ServerConfig{PasswordCallback: func(meta ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if g.refused != "" {
			return nil, &ssh.BannerError{Err: errors.New("denied"), Message: "refused: " + g.refused + "\r\n"}
		}
		if meta.User() != "cf:the-process/1" || string(password) != testCode {
			return nil, errors.New("denied")
		}
		return nil, nil
	}}
	g.config.AddHostKey(signer)
	t.Cleanup(g.work.Wait)
	return g
}

func (g *fakeGateway) connect(remote net.Addr) (net.Conn, error) {
	g.remote <- remote.String()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	accepted, err := l.Accept()
	if err != nil {
		return nil, err
	}
	g.work.Go(func() { g.serve(accepted) })
	return conn, nil
}

func (g *fakeGateway) serve(conn net.Conn) {
	defer conn.Close()
	_, channels, requests, err := ssh.NewServerConn(conn, g.config)
	if err != nil {
		return
	}
	g.work.Go(func() { ssh.DiscardRequests(requests) })
	for nc := range channels {
		channel, requests, err := nc.Accept()
		if err != nil {
			return
		}
		g.work.Go(func() { g.session(channel, requests) })
	}
	g.closed <- struct{}{}
}

func (g *fakeGateway) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	for r := range requests {
		switch r.Type {
		case "pty-req":
			var m struct {
				Term                         string
				Columns, Rows, Width, Height uint32
				Modes                        string
			}
			if err := ssh.Unmarshal(r.Payload, &m); err != nil {
				g.t.Error(err)
			}
			fmt.Fprintf(channel, "%s %dx%d\n", m.Term, m.Columns, m.Rows)
		case "window-change":
			var m struct{ Columns, Rows, Width, Height uint32 }
			if err := ssh.Unmarshal(r.Payload, &m); err != nil {
				g.t.Error(err)
			}
			fmt.Fprintf(channel, "resized %dx%d\n", m.Columns, m.Rows)
		case "shell":
			g.work.Go(func() { repeat(channel) })
		}
		_ = r.Reply(true, nil)
	}
}

// repeat is the shell: it repeats its input until that is "exit".
func repeat(channel ssh.Channel) {
	b := make([]byte, 4096)
	for {
		n, err := channel.Read(b)
		if err != nil {
			return
		}
		if string(b[:n]) == "exit" {
			_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{3}))
			_ = channel.Close()
			return
		}
		if _, err := channel.Write(b[:n]); err != nil {
			return
		}
	}
}

// open opens a shell; change may alter its request.
func (w *world) open(change ...func(*websocket.DialOptions)) (*websocket.Conn, *http.Response, error) {
	o := &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		HTTPHeader:   http.Header{"Origin": {w.Server.URL}, "Cookie": {w.Cookie}},
		Subprotocols: []string{shellProtocol, pagetest.CSRF(w.Session)},
	}
	for _, f := range change {
		f(o)
	}
	return websocket.Dial(w.Context(), w.Server.URL+
		"/console/apps/the-app/shell/socket?process=web&instance=1&columns=100&rows=30", o)
}

// await reads output until it contains a text.
func (w *world) await(c *websocket.Conn, text string) {
	w.Helper()
	var all string
	for !strings.Contains(all, text) {
		_, b, err := c.Read(w.Context())
		if err != nil {
			w.Fatalf("%v after %q", err, all)
		}
		all += string(b)
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	if c.Subprotocol() != shellProtocol {
		t.Errorf("the protocol is %q", c.Subprotocol())
	}
	w.await(c, "xterm-256color 100x30\n")
	if remote := <-w.gateway.remote; !strings.HasPrefix(remote, "127.0.0.1:") {
		t.Errorf("the gateway sees a client at %s", remote)
	}
	send := func(kind websocket.MessageType, text string) {
		t.Helper()
		if err := c.Write(t.Context(), kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	send(websocket.MessageBinary, "hello")
	w.await(c, "hello")
	send(websocket.MessageText, `{"columns":120,"rows":40}`)
	w.await(c, "resized 120x40\n")
	// More than the browser may be behind.
	big := strings.Repeat("x", 32<<10)
	for range 2 * shellAhead / len(big) {
		send(websocket.MessageBinary, big)
		for n := 0; n < len(big); {
			_, b, err := c.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n += len(b)
		}
		send(websocket.MessageText, fmt.Sprintf(`{"shown":%d}`, len(big)))
	}
	send(websocket.MessageBinary, "exit")
	_, b, err := c.Read(t.Context())
	var end control
	if err != nil || json.Unmarshal(b, &end) != nil || end.Exit == nil || *end.Exit != 3 {
		t.Errorf("at the end: %q, %v", b, err)
	}
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the end: %v", err)
	}
	<-w.gateway.closed
}

func TestShellIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		change func(*websocket.DialOptions)
		status int
	}{
		"another origin": {func(o *websocket.DialOptions) { o.HTTPHeader.Set("Origin", "https://evil.example") },
			http.StatusForbidden},
		"another scheme": {func(o *websocket.DialOptions) {
			o.HTTPHeader.Set("Origin", "https"+strings.TrimPrefix(w.Server.URL, "http"))
		}, http.StatusForbidden},
		"no origin": {func(o *websocket.DialOptions) { o.HTTPHeader.Del("Origin") }, http.StatusForbidden},
		"no token":  {func(o *websocket.DialOptions) { o.Subprotocols = []string{shellProtocol} }, http.StatusForbidden},
		"a token of other": {func(o *websocket.DialOptions) {
			o.Subprotocols[1] = pagetest.CSRF(&page.Session{Secrets: page.Secrets{CSRF: page.RandomText()}})
		}, http.StatusForbidden},
		"no session": {func(o *websocket.DialOptions) { o.HTTPHeader.Del("Cookie") }, http.StatusUnauthorized},
	} {
		c, resp, err := w.open(test.change)
		if err == nil {
			_ = c.CloseNow()
			t.Errorf("%s: accepted", name)
			continue
		}
		if resp == nil || resp.StatusCode != test.status {
			t.Errorf("%s: %v, want %d", name, err, test.status)
		}
	}
	if len(w.gateway.remote) != 0 {
		t.Error("the gateway was asked")
	}
	// The gateway decides about the rest, and its reason is shown.
	w.gateway.refused = "ssh is disabled for the app"
	c, _, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	var end websocket.CloseError
	if _, _, err := c.Read(t.Context()); !errors.As(err, &end) || end.Code != statusRefused ||
		end.Reason != "The shell was refused: ssh is disabled for the app." {
		t.Errorf("the end is %v", err)
	}
}

// TestLogoutEndsShells logs out in one page while another has a shell.
func TestLogoutEndsShells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, _, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	w.await(c, "xterm-256color")
	w.Logout()
	var end websocket.CloseError
	for err = nil; err == nil; {
		_, _, err = c.Read(t.Context())
	}
	if !errors.As(err, &end) || end.Code != statusEnded || end.Reason != "You have been logged out." {
		t.Errorf("the end is %v", err)
	}
	<-w.gateway.closed
	// No stream is left: the user can open as many as ever.
	w.API.HandleFunc("GET /api/v1/tail/the-app", func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, ":\n\n")
		<-r.Context().Done()
	})
	w.Login()
	testkit.Eventually(t, "all streams can be opened", func() bool {
		const allowed = 20
		var open []io.Closer
		defer func() {
			for _, body := range open {
				_ = body.Close()
			}
		}()
		for range allowed {
			resp := w.Open("/console/apps/the-app/logs/stream")
			open = append(open, resp.Body)
			if resp.StatusCode != http.StatusOK {
				return false
			}
		}
		return true
	})
}
