//go:build linux

package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// ErrPortTaken means that something on this machine has the port.
var ErrPortTaken = errors.New("the port is taken")

// Ports hands out ports of this machine to instances.
//
// An instance listens some time after it was told its port, and several servers
// do this side by side. So a port is reserved, for as long as its instance
// exists, by an abstract unix socket named after it: the kernel lets one
// process have it, and forgets it with that process. What remains is a race
// with programs that are not ours, which may take the port between our look and
// the instance's listening; the ports given are outside the range from which
// the kernel takes those of outgoing connections, so that only a program with
// that very port in its configuration can hit it. While a server is away its
// reservations are gone, but then its instances listen.
type Ports struct {
	mu        sync.Mutex
	held      map[int]net.Listener
	low, high int // the range, both included
}

// NewPorts returns an allocator without reservations.
func NewPorts() *Ports {
	p := &Ports{held: map[int]net.Listener{}, low: 20000, high: 32767}
	first, last := ephemeral()
	switch {
	case first > p.low+2000:
		p.high = first - 1
	case last < 63000:
		p.low, p.high = last+1, 65535
	}
	return p
}

// ephemeral is the kernel's range for outgoing connections.
func ephemeral() (first, last int) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return 32768, 60999
	}
	if _, err := fmt.Sscan(string(b), &first, &last); err != nil {
		return 32768, 60999
	}
	return first, last
}

// Take reserves a port on which nothing listens.
func (p *Ports) Take() (int, error) {
	for range 1000 {
		n := p.low + rand.IntN(p.high-p.low+1)
		if err := p.Claim(n); err == nil {
			return n, nil
		} else if !errors.Is(err, ErrPortTaken) {
			return 0, err
		}
	}
	return 0, fmt.Errorf("no free port between %d and %d", p.low, p.high)
}

// Claim reserves one port, or says ErrPortTaken when it is reserved or
// something listens there.
func (p *Ports) Claim(port int) error {
	if err := p.Adopt(port); err != nil {
		return err
	}
	defer alone()()
	l, err := net.Listen("tcp", ":"+strconv.Itoa(port)) //nolint:gosec,noctx // every address, to see whether anything listens on one; closed at once
	if err != nil {
		p.release(port)
		return fmt.Errorf("%w: %w", ErrPortTaken, err)
	}
	return l.Close()
}

// alone keeps this process from starting others until the function it returns
// is called: for a moment a new process has a copy of every socket, and one that
// we close would still be there.
func alone() func() {
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

// Adopt reserves a port whose instance may be listening already.
func (p *Ports) Adopt(port int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.held[port]; ok {
		return ErrPortTaken
	}
	l, err := net.Listen("unix", "@ingot-port-"+strconv.Itoa(port)) //nolint:noctx // does not block
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPortTaken, err)
	}
	p.held[port] = l
	return nil
}

// Release gives a reservation back. It is no error if there is none.
func (p *Ports) Release(ports ...int) {
	defer alone()()
	p.release(ports...)
}

func (p *Ports) release(ports ...int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, port := range ports {
		if l, ok := p.held[port]; ok {
			l.Close()
			delete(p.held, port)
		}
	}
}

// Close gives all reservations back.
func (p *Ports) Close() {
	defer alone()()
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, l := range p.held {
		l.Close()
		delete(p.held, port)
	}
}
