package main

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ingot/internal/platform/instance/initproto"
)

func TestParseStatus(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"HTTP/1.1 200 OK\r\n": 200, "HTTP/1.0 404\r\n": 404, "HTTP/1.1 500 Internal Server Error": 500,
		"": 0, "HTTP/1.1": 0, "SSH-2.0-x 200 OK": 0, "HTTP/1.1 20 OK": 0, "HTTP/1.1 abc": 0, "HTTP/2 200": 0,
	} {
		if got, ok := parseStatus(line); ok != (want != 0) || ok && got != want {
			t.Errorf("status of %q is %d, valid %v, want %d", line, got, ok, want)
		}
	}
}

// listener answers each connection with a text and returns its port.
func listener(t *testing.T, address, answer string) int {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if answer != "" {
				_, _ = c.Read(make([]byte, 1000))
				_, _ = c.Write([]byte(answer))
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr.Port
}

func TestLook(t *testing.T) {
	t.Parallel()
	port := func(kind initproto.CheckKind, ports ...int) initproto.Check {
		return initproto.Check{Kind: kind, Ports: ports, Endpoint: "/health", Invocation: limit}
	}
	open := listener(t, loopback, "")
	closed := freePort(t)
	for _, test := range []struct {
		name  string
		check initproto.Check
		want  string
	}{
		{"port", port(initproto.CheckPort, open), ""},
		{"all ports", port(initproto.CheckPort, open, closed), "is not listening: connection refused"},
		{"http 200", port(initproto.CheckHTTP, listener(t, loopback, "HTTP/1.1 200 OK\r\n\r\n")), ""},
		{"http looks at the first port only", port(initproto.CheckHTTP, listener(t, loopback, "HTTP/1.1 200 OK\r\n\r\n"),
			closed), ""},
		{"http 500", port(initproto.CheckHTTP, listener(t, loopback, "HTTP/1.1 500 No\r\n\r\n")), "HTTP status 500"},
		{"http 302", port(initproto.CheckHTTP, listener(t, loopback, "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n")),
			"HTTP status 302"},
		{"http closed", port(initproto.CheckHTTP, closed), "connection refused"},
		{"http hangs up", port(initproto.CheckHTTP, open), "no HTTP answer: "},
		{"not http", port(initproto.CheckHTTP, listener(t, loopback, strings.Repeat("220 smtp", 100))), "not HTTP"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := probe(context.Background(), test.check)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestLookTimesOut(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", loopback+":0") // never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	addr, _ := l.Addr().(*net.TCPAddr)
	err = probe(context.Background(), initproto.Check{Kind: initproto.CheckHTTP, Ports: []int{addr.Port},
		Invocation: 2 * time.Second})
	if err == nil || err.Error() != "no HTTP answer: no answer within 2s" {
		t.Error(err)
	}
}

func TestLookFindsWhoListensElsewhere(t *testing.T) {
	t.Parallel()
	addresses := ownAddresses()
	if len(addresses) == 0 {
		t.Skip("this machine has no address but loopback")
	}
	check := initproto.Check{Kind: initproto.CheckPort, Ports: []int{listener(t, addresses[0], "")}, Invocation: limit}
	if err := probe(context.Background(), check); err != nil {
		t.Error(err)
	}
}

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if !sleep(ctx, 59*time.Second) || sleep(ctx, time.Hour) {
			t.Error("it does not know the time")
		}
	})
}
