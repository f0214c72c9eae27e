package system

import (
	"net"
	"testing"
)

func TestURLs(t *testing.T) {
	t.Parallel()
	for want, addr := range map[string]net.TCPAddr{
		"http://127.0.0.1:8080":        {IP: net.IPv4(127, 0, 0, 1), Port: 8080},
		"http://127.0.0.1:1":           {IP: net.IPv4zero, Port: 1},
		"http://127.0.0.1:2":           {IP: net.IPv6unspecified, Port: 2},
		"http://[::1]:3":               {IP: net.IPv6loopback, Port: 3},
		"http://192.0.2.1:4":           {IP: net.IPv4(192, 0, 2, 1), Port: 4},
		"http://[fe80::1%25eth0]:8080": {IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 8080},
	} {
		if got := urlOf(&addr); got != want {
			t.Errorf("%v: %s, want %s", &addr, got, want)
		}
	}
}
