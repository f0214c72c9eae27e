package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
)

func TestEcho(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		proxied    bool
		send, want string
	}{
		{false, "hello\n", "instance 3, you are 127.0.0.1:"},
		{true, "PROXY TCP4 192.0.2.1 192.0.2.9 56324 1024\r\nhello\n", "instance 3, you are 192.0.2.1:56324"},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, l, "3", x.proxied) }()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, x.send); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		greeting, rest, _ := strings.Cut(readAll(t, c), "\n")
		if !strings.HasPrefix(greeting, x.want) || rest != "hello\n" {
			t.Errorf("%q: got %q and %q, want %q and the echo", x.send, greeting, rest, x.want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
	if _, err := client(bufio.NewReader(strings.NewReader("hello\n"))); err == nil ||
		!strings.Contains(err.Error(), "proxy_protocol=v1") {
		t.Errorf("without a header: %v", err)
	}
}

func readAll(t *testing.T, c net.Conn) string {
	t.Helper()
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}
