package main

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// TestElsewhere looks once a second at members that do not listen on port 8080.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	at := func(ports ...int) (all []socket) {
		for _, p := range ports {
			all = append(all, socket{net.IPv4zero, p})
		}
		return all
	}
	wrong := func(int) []socket { return at(3000) }
	idle := func(s int) time.Duration { return time.Duration(s) * 20 * time.Millisecond }
	busy := func(s int) time.Duration { return time.Duration(s) * 500 * time.Millisecond }
	refused := error(&closedPort{8080, "connection refused"})
	for _, test := range []struct {
		name    string
		sockets func(second int) []socket
		cpu     func(second int) time.Duration
		err     error
		shared  bool // the sockets may be those of other members
		patient bool
		told    int // the second of the message; 0 for none
		certain int // the second of the decision; 0 for never
	}{
		{name: "wrong port", sockets: wrong, told: 5, certain: 12},
		{name: "wrong address", sockets: func(int) []socket { return []socket{{net.IPv6loopback, 8080}} }, told: 5,
			certain: 12},
		{name: "nothing is open", sockets: func(int) []socket { return nil }},
		{name: "one of its ports is open", sockets: func(int) []socket { return at(9000) }},
		{name: "timeout set by the user", sockets: wrong, patient: true, told: 5},
		{name: "sockets of the whole instance", sockets: wrong, shared: true, told: 5},
		{name: "busy", sockets: wrong, cpu: busy, told: 5},
		{name: "busy at first", sockets: wrong, cpu: func(s int) time.Duration { return busy(min(s, 15)) }, told: 5,
			certain: 32},
		{name: "debug port at first, then another", sockets: func(s int) []socket {
			if s < 8 {
				return at(5005)
			}
			return at(5005, 9010)
		}, told: 5, certain: 18},
		{name: "another failure", sockets: wrong, err: errors.New("HTTP status 500")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			second, told := 0, 0
			cpu := test.cpu
			if cpu == nil {
				cpu = idle
			}
			of := subject{
				listening: func() ([]socket, bool) { return test.sockets(second), !test.shared },
				used:      func() time.Duration { return cpu(second) }, patient: test.patient,
			}
			err := test.err
			if err == nil {
				err = refused
			}
			var e elsewhere
			begin := time.Now()
			for second = 1; second <= 60; second++ {
				reason, certain := e.look(begin.Add(time.Duration(second)*time.Second), of, err, []int{8080, 9000})
				if certain {
					if second != test.certain || !strings.Contains(reason, "make it listen") {
						t.Errorf("certain after %d s: %q; want %d s", second, reason, test.certain)
					}
					break
				}
				if reason != "" && told == 0 {
					told = second
				}
			}
			if told != test.told {
				t.Errorf("told after %d s, want %d", told, test.told)
			}
			if test.certain == 0 && second <= 60 {
				t.Errorf("given up after %d s", second)
			}
		})
	}
}
