//go:build linux

package agentserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"ingot/internal/base/background"
)

// readyPort is a port that accepts connections only while the instance is ready. It is
// bound all the time, so that the app cannot take it.
type readyPort struct {
	mu    sync.Mutex
	f     *os.File
	raw   syscall.RawConn
	ready bool
	done  chan struct{} // closed when accept has ended
}

const backlog = 64

func newReadyPort(ip net.IP, port int) (*readyPort, error) {
	family, address := syscall.AF_INET6, syscall.Sockaddr(&syscall.SockaddrInet6{Port: port, Addr: [16]byte(ip.To16())})
	if v4 := ip.To4(); v4 != nil {
		family, address = syscall.AF_INET, &syscall.SockaddrInet4{Port: port, Addr: [4]byte(v4)}
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// Without SO_REUSEADDR: with it, another socket could be bound while this one does not
	// listen.
	if err := syscall.Bind(fd, address); err != nil {
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("bind port %d: %w", port, err)
	}
	p := &readyPort{f: os.NewFile(uintptr(fd), "ready")}
	if p.raw, err = p.f.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.f.Close())
	}
	return p, nil
}

// set starts or stops accepting connections.
func (p *readyPort) set(ready bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ready == p.ready {
		return nil
	}
	var err error
	if ready {
		err = p.control(func(fd int) error { return syscall.Listen(fd, backlog) })
		if err != nil {
			return err
		}
		done := make(chan struct{})
		p.ready, p.done = true, done
		background.Go("readiness", func() {
			defer close(done)
			p.accept()
		})
		return nil
	}
	p.ready = false
	err = p.control(func(fd int) error { return syscall.Shutdown(fd, syscall.SHUT_RDWR) })
	<-p.done
	return err
}

func (p *readyPort) control(f func(fd int) error) error {
	var result error
	if err := p.raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}

// accept accepts connections until the socket does not listen any more, and closes them.
func (p *readyPort) accept() {
	var probes background.WaitGroup
	defer probes.Wait()
	slots := make(chan struct{}, maxProbes)
	for {
		var n int
		var err error
		outer := p.raw.Read(func(fd uintptr) bool {
			n, _, err = syscall.Accept4(int(fd), syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK)
			return !errors.Is(err, syscall.EAGAIN)
		})
		switch {
		case outer != nil || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EBADF):
			return
		case err != nil: // the connection was lost, or too many files are open
			continue
		}
		// Closing resets the connection: one that waits for its last packets would keep the
		// port busy, so that it could not listen again.
		_ = syscall.SetsockoptLinger(n, syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1})
		f := os.NewFile(uintptr(n), "probe")
		slots <- struct{}{}
		probes.Go("readiness", func() {
			defer func() { <-slots }()
			answer(f)
		})
	}
}

const (
	maxProbes = 16
	probeTime = time.Second
)

// answer waits until the client closes the connection, because a client that is reset at
// once may take it for a refusal.
func answer(f *os.File) {
	if f.SetReadDeadline(time.Now().Add(probeTime)) == nil {
		_, _ = f.Read(make([]byte, 1))
	}
	_ = f.Close() // nothing was written to it
}

func (p *readyPort) close() error { return errors.Join(p.set(false), p.f.Close()) }
