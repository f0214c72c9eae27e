//go:build linux

package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"

	"ingot/internal/base/pattern"
	"ingot/internal/platform/engine"
)

// ErrPortTaken means that another program on this machine uses the port.
var ErrPortTaken = errors.New("the port is taken")

// Ports allocates ports of this machine to instances.
//
// An instance listens some time after it got its port, and several servers may allocate
// ports side by side. So a port is reserved, as long as its instance exists, by an abstract
// unix socket named after it: the kernel gives it to one process, and releases it with that
// process. A race remains with other programs, which may take the port between the check
// and the instance's listening; allocated ports are outside the kernel's range for outgoing
// connections, so only a program that is configured for that very port can collide. While a
// server is down its reservations are gone, but then its instances listen.
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

// ephemeral returns the kernel's range for outgoing connections.
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

// Take reserves a port without a listener.
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

// Claim reserves a given port. It returns ErrPortTaken if the port is reserved or has a
// listener.
func (p *Ports) Claim(port int) error {
	if err := p.Adopt(port); err != nil {
		return err
	}
	defer alone()()
	l, err := net.Listen( //nolint:gosec,noctx // every address, to see whether anything listens on one; closed at once
		"tcp", ":"+strconv.Itoa(port))
	if err != nil {
		p.release(port)
		return fmt.Errorf("%w: %w", ErrPortTaken, err)
	}
	return l.Close()
}

// alone keeps this process from starting others until the returned function is called: for
// a moment a new process has a copy of every socket, so a closed one would stay open.
func alone() func() {
	syscall.ForkLock.RLock()
	return syscall.ForkLock.RUnlock
}

// Adopt reserves a port whose instance may already listen.
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

// Release releases reservations. It is not an error if there is none.
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

// Close releases all reservations.
func (p *Ports) Close() {
	defer alone()()
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, l := range p.held {
		l.Close()
		delete(p.held, port)
	}
}

var mentioned = pattern.OnUse(`\{\{port:([0-9]{1,5})\}\}`)

// WantedPorts returns the ports of a spec, and those that only its members mention, each once.
func WantedPorts(s engine.Spec) (wanted []int) {
	all := slices.Clone(s.Ports)
	for _, m := range s.Launch.Members {
		for _, text := range slices.Concat(m.Args, m.Env) {
			for _, match := range mentioned().FindAllStringSubmatch(text, -1) {
				if n, err := strconv.Atoi(match[1]); err == nil {
					all = append(all, n)
				}
			}
		}
	}
	for _, n := range all {
		if !slices.Contains(wanted, n) {
			wanted = append(wanted, n)
		}
	}
	return wanted
}

// Listens maps a port of a spec to the number that the instance listens on. Others are unchanged.
func Listens(ports []engine.Port) func(int) int {
	return func(inside int) int {
		for _, p := range ports {
			if p.Inside == inside {
				return p.Listens
			}
		}
		return inside
	}
}
