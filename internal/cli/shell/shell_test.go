package shell_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"ingot/internal/cli/shell"
)

// gateway is an ssh server that runs nothing: it reports the requests it got.
func gateway(t *testing.T) shell.Login {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	conf := &ssh.ServerConfig{PasswordCallback: func(c ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
		if c.User() != "cf:guid/0" || string(password) != "code" {
			return nil, fmt.Errorf("no")
		}
		return nil, nil //nolint:nilnil // no restrictions
	}}
	conf.AddHostKey(signer)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn, conf)
		}
	}()
	sum := sha256.Sum256(signer.PublicKey().Marshal())
	return shell.Login{Address: l.Addr().String(), Fingerprint: base64.RawStdEncoding.EncodeToString(sum[:]),
		User: "cf:guid/0", Password: "code"}
}

func serve(conn net.Conn, conf *ssh.ServerConfig) {
	_, channels, requests, err := ssh.NewServerConn(conn, conf)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for n := range channels {
		if n.ChannelType() == "direct-tcpip" {
			c, reqs, err := n.Accept()
			if err != nil {
				return
			}
			go ssh.DiscardRequests(reqs)
			go func() {
				_, _ = io.Copy(c, c) // an echo
				_ = c.CloseWrite()
			}()
			continue
		}
		c, reqs, err := n.Accept()
		if err != nil {
			return
		}
		go session(c, reqs)
	}
}

func session(c ssh.Channel, requests <-chan *ssh.Request) {
	defer c.Close()
	terminal := "none"
	for r := range requests {
		switch r.Type {
		case "pty-req":
			var p struct {
				Term          string
				Columns, Rows uint32
				W, H          uint32
				Modes         string
			}
			_ = ssh.Unmarshal(r.Payload, &p)
			terminal = fmt.Sprintf("%s %dx%d", p.Term, p.Columns, p.Rows)
			_ = r.Reply(true, nil)
		case "exec", "shell":
			_ = r.Reply(true, nil)
			command := "shell"
			if r.Type == "exec" {
				command = string(r.Payload[4:])
			}
			in, _ := io.ReadAll(c)
			fmt.Fprintf(c, "%s, terminal %s, input %s", command, terminal, in)
			fmt.Fprint(c.Stderr(), "to people")
			_, _ = c.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{7}))
			return
		default:
			_ = r.Reply(false, nil)
		}
	}
}

func dial(t *testing.T, l shell.Login) *shell.Client {
	t.Helper()
	c, err := shell.Dial(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRun(t *testing.T) {
	t.Parallel()
	c := dial(t, gateway(t))
	for _, tc := range []struct {
		command  string
		terminal *shell.Terminal
		want     string
	}{
		{"ls -l", nil, "ls -l, terminal none, input abc"},
		{"", &shell.Terminal{Kind: "xterm", Size: func() (int, int) { return 24, 80 }},
			"shell, terminal xterm 80x24, input abc"},
	} {
		var out, errs bytes.Buffer
		code, err := c.Run(t.Context(), tc.command, strings.NewReader("abc"), &out, &errs, tc.terminal)
		if err != nil || code != 7 || out.String() != tc.want || errs.String() != "to people" {
			t.Errorf("exit code %d, %v, stdout %q, stderr %q, want 7 and %q", code, err, &out, &errs, tc.want)
		}
	}
}

func TestForward(t *testing.T) {
	t.Parallel()
	c := dial(t, gateway(t))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f, err := shell.ParseForward("127.0.0.1:0:localhost:5432")
	if err != nil {
		t.Fatal(err)
	}
	at, err := c.Forward(ctx, f, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("ping")); err != nil {
		t.Fatal(err)
	}
	_ = conn.(*net.TCPConn).CloseWrite()
	if back, err := io.ReadAll(conn); err != nil || string(back) != "ping" {
		t.Errorf("read %q, %v, want ping", back, err)
	}
}

// A wrong host key is rejected before any code is sent.
func TestHostKey(t *testing.T) {
	t.Parallel()
	good := gateway(t)
	for fingerprint, why := range map[string]string{
		"": "does not publish", "short": "unknown format",
		strings.Repeat("A", 43): "may be intercepted", strings.Repeat("a", 64): "may be intercepted",
		strings.Repeat("0", 47): "may be intercepted", strings.Repeat("0", 59): "may be intercepted",
	} {
		l := good
		l.Fingerprint = fingerprint
		if c, err := shell.Dial(t.Context(), l); err == nil || !strings.Contains(err.Error(), why) {
			if c != nil {
				c.Close()
			}
			t.Errorf("%q: %v, want %q", fingerprint, err, why)
		}
	}
	wrong := good
	wrong.Password = "guess"
	if _, err := shell.Dial(t.Context(), wrong); err == nil {
		t.Error("a wrong code is accepted")
	}
}

func TestParseForward(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"8080:localhost:80": "localhost:8080 localhost:80", "0.0.0.0:1:db:2": "0.0.0.0:1 db:2",
		"[::1]:1:[fe80::1]:2": "[::1]:1 [fe80::1]:2",
		"8080":                "", "a:b:c": "", "1:host:99999": "", "[::1:1:h:2": "", "1::2": "",
	} {
		f, err := shell.ParseForward(text)
		if got := f.Local + " " + f.Remote; err == nil && got != want || err != nil && want != "" {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}
