package router

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
	"ingot/internal/platform/edge/router/socket"
)

// protoTCP is the Proto of the access lines of connections.
const protoTCP = "TCP"

const (
	errNoEndpoints        = "no_endpoints"
	errTooManyConnections = "too_many_connections"
)

// stream is a connection of a client to a backend of a TCP route.
type stream struct {
	port     int
	endpoint *endpoint
	client   *net.TCPConn
	backend  *net.TCPConn
	from, to netip.AddrPort // of the client's connection, as a proxy in front names them

	received, sent atomic.Int64 // bytes from and to the client

	// Guarded by the router:
	seen  int64     // bytes when sweep looked
	since time.Time // when sweep saw them first
	left  time.Time // when the backend left the route; zero if it did not
}

// abort resets both connections, so that neither side takes the end for a regular one.
func (s *stream) abort() {
	reset(s.client)
	reset(s.backend)
}

func reset(c *net.TCPConn) {
	_ = c.SetLinger(0)
	_ = c.Close()
}

// serve forwards one connection.
func (t *TCP) serve(p *tcpPort, c net.Conn) {
	client, ok := connlimit.TCP(c)
	if !ok {
		_ = c.Close()
		return
	}
	m := p.route.Load()
	at := m.Route.Host + ":" + strconv.Itoa(p.number)
	a := &Access{Host: at, Time: time.Now(), Proto: protoTCP, RemoteAddr: c.RemoteAddr().String(), Route: m.Route.GUID}
	from := connlimit.Address(c.RemoteAddr())
	if t.options.Unlimited == nil || !t.options.Unlimited(from) {
		slot := t.sources.Take(from.String(), nil) // there is no total, so none is evicted
		if slot == nil {
			t.refuse(a, client, errTooManyConnections)
			return
		}
		defer slot.Release()
	}
	s := &stream{port: p.number, client: client, from: addrPort(c.RemoteAddr()), to: addrPort(c.LocalAddr())}
	stats, word := t.connect(p, s, a)
	if word != "" {
		t.refuse(a, client, word)
		return
	}
	e := s.endpoint
	defer func() {
		e.state.active.Add(-1)
		stats.active.Add(-1)
	}()
	slot := t.apps.Take(e.AppGUID, s.abort)
	if slot == nil {
		reset(s.backend)
		t.refuse(a, client, errTooManyConnections)
		return
	}
	defer slot.Release()
	if !t.add(s) {
		s.abort()
		return
	}
	a.RouterTime = time.Since(a.Time)
	s.forward(slot)
	t.drop(s)
	a.Duration = time.Since(a.Time)
	a.RequestBytes, a.ResponseBytes = s.received.Load(), s.sent.Load()
	t.proxy.counters.connected(a, stats)
	t.log(a)
}

// connect dials a backend of the route. It returns the backend's counters, which count the
// connection, or a word for why there is none.
func (t *TCP) connect(p *tcpPort, s *stream, a *Access) (stats *instanceStats, problem string) {
	dialer := net.Dialer{
		Timeout: t.proxy.options.DialTimeout,
		// A backend whose machine or network is gone does not end its connections.
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
	}
	var tried []*endpoint
	m := p.route.Load()
	for a.Attempts < t.proxy.options.Attempts {
		e := m.pool.next(tried, time.Now(), "", "")
		if e == nil {
			if now := p.route.Load(); now != m {
				m, tried = now, nil
				continue
			}
			break
		}
		if len(tried) > 0 {
			t.proxy.counters.retries.Add(1)
		}
		tried = append(tried, e)
		a.Attempts++
		a.Backend, a.App, a.Process, a.Instance, a.Index = e.Address, e.AppGUID, e.ProcessGUID, e.InstanceGUID,
			strconv.Itoa(e.Index)
		stats = t.proxy.counters.of(e)
		e.state.active.Add(1)
		stats.active.Add(1)
		c, err := dialInstance(context.Background(), &dialer, "tcp", e.Address)
		if err == nil {
			backend := c.(*net.TCPConn) //nolint:forcetypeassert // of a TCP dialer
			if err = announce(backend, s.from, s.to, m.Route.Options[optionProxyProtocol]); err == nil {
				e.state.restore()
				s.endpoint, s.backend = e, backend
				return stats, ""
			}
			reset(backend)
		}
		e.state.active.Add(-1)
		stats.active.Add(-1)
		e.state.eject(time.Now())
		t.proxy.counters.ejections.Add(1)
		t.options.Log.Info("a backend of a TCP route cannot be reached", "route", a.Route, "backend", e.Address, "error", err)
	}
	if len(tried) == 0 {
		return nil, errNoEndpoints
	}
	return nil, errEndpointFailure
}

// refuse resets a connection that gets no backend.
func (t *TCP) refuse(a *Access, client *net.TCPConn, word string) {
	reset(client)
	a.RouterError, a.Duration = word, time.Since(a.Time)
	a.RouterTime = a.Duration
	t.proxy.counters.refuse(word)
	t.log(a)
}

func (t *TCP) log(a *Access) {
	if t.proxy.options.AccessLog != nil {
		t.proxy.options.AccessLog(*a)
	}
}

// forward copies in both directions until both have ended. When one side ends its output,
// the other can still answer.
func (s *stream) forward(slot *connlimit.Slot) {
	var answers background.WaitGroup
	answers.Go("tcp answers", func() { s.copy(s.client, s.backend, &s.sent, nil) })
	s.copy(s.backend, s.client, &s.received, slot.Touch)
	answers.Wait()
	_ = s.client.Close()
	_ = s.backend.Close()
}

// copy copies until from ends, and then ends the output of to. If either fails, both
// connections are reset.
func (s *stream) copy(to, from *net.TCPConn, count *atomic.Int64, touch func()) {
	src, err := socket.NewSource(from)
	for err == nil {
		var chunk []byte
		if chunk, err = src.Next(); err != nil {
			break
		}
		if touch != nil {
			touch()
		}
		if _, err = to.Write(chunk); err == nil {
			count.Add(int64(len(chunk)))
		}
	}
	src.Release()
	if !errors.Is(err, io.EOF) {
		s.abort()
		return
	}
	_ = to.CloseWrite()
}

// announceFor is how long a backend may take to accept the PROXY header.
const announceFor = 5 * time.Second

// announce sends the addresses of the client's connection with the PROXY protocol, if the
// route has a version of it.
func announce(backend *net.TCPConn, from, to netip.AddrPort, version string) error {
	if version == "" {
		return nil
	}
	header := proxyHeader(version, from, to)
	_ = backend.SetWriteDeadline(time.Now().Add(announceFor))
	_, err := backend.Write(header)
	_ = backend.SetWriteDeadline(time.Time{})
	return err
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, _ := a.(*net.TCPAddr)
	if tcp == nil {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap().WithZone(""), at.Port())
}

// proxyHeader returns the header of the PROXY protocol for a connection.
func proxyHeader(version string, from, to netip.AddrPort) []byte {
	four := from.Addr().Is4() && to.Addr().Is4()
	if version == "v1" {
		family := "TCP6"
		if four {
			family = "TCP4"
		}
		return []byte("PROXY " + family + " " + from.Addr().String() + " " + to.Addr().String() + " " +
			strconv.Itoa(int(from.Port())) + " " + strconv.Itoa(int(to.Port())) + "\r\n")
	}
	// Signature, version 2 with the command PROXY, and TCP over IPv4 or IPv6.
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x21, 0x21)
	if four {
		b[len(b)-1] = 0x11
		b = binary.BigEndian.AppendUint16(b, 12)
		b = append(b, from.Addr().AsSlice()...)
		b = append(b, to.Addr().AsSlice()...)
	} else {
		b = binary.BigEndian.AppendUint16(b, 36)
		f, t := from.Addr().As16(), to.Addr().As16()
		b = append(append(b, f[:]...), t[:]...)
	}
	b = binary.BigEndian.AppendUint16(b, from.Port())
	return binary.BigEndian.AppendUint16(b, to.Port())
}
