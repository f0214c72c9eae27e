package dns

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"ingot/internal/base/background"
	"ingot/internal/base/connlimit"
)

// Config configures a Server.
type Config struct {
	// Listen is the address for UDP and TCP. Port 0 picks a free one.
	Listen netip.AddrPort
	// Answer is the address of all names of the platform.
	Answer netip.Addr
	// Ours reports whether a name belongs to the platform. It is in lower case and has no
	// final dot.
	Ours func(name string) bool
	// Internal returns the addresses of a name below an internal domain, and whether it
	// exists; below is false for all other names. Nil means that there are none.
	Internal func(name string) (addresses []netip.Addr, exists, below bool)
	// May reports whether an address may send queries.
	May func(netip.Addr) bool
	// Upstreams returns the name servers for all other names; nil means those of this
	// machine.
	Upstreams func() []netip.AddrPort
	// Listeners opens the port; nil means to listen on Listen.
	Listeners Listeners
	Log       *slog.Logger
}

// Listeners opens ports, or returns those that the previous process of the server opened.
type Listeners interface {
	TCP(ctx context.Context, at netip.AddrPort) (net.Listener, error)
	UDP(at netip.AddrPort) (*net.UDPConn, error)
}

type ownListeners struct{}

func (ownListeners) TCP(ctx context.Context, at netip.AddrPort) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", at.String())
}

func (ownListeners) UDP(at netip.AddrPort) (*net.UDPConn, error) {
	return net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
}

// Limits.
const (
	sourceQueries = 64 // of one instance at a time
	allQueries    = 512
	sourceClients = 8 // TCP connections of one instance
	allClients    = 128
	upstreamTime  = 3 * time.Second // per name server
	clientTime    = 10 * time.Second
	largestUDP    = 4096
	ttl           = 5 // seconds; short, because a domain may be deleted
	internalTTL   = 0 // instances come and go
)

// Server is a name server, a background.Service.
type Server struct {
	background.Part
	config  Config
	udp     *net.UDPConn
	tcp     net.Listener
	queries *connlimit.Limiter
}

// New returns a server that is not running.
func New(c Config) *Server {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Upstreams == nil {
		c.Upstreams = machineServers
	}
	if c.Listeners == nil {
		c.Listeners = ownListeners{}
	}
	return &Server{config: c, queries: connlimit.New(connlimit.Limits{PerSource: sourceQueries, Total: allQueries})}
}

// Start starts listening.
func (s *Server) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if err := s.listen(ctx); err != nil {
			return fmt.Errorf("listen for DNS queries: %w", err)
		}
		limited := connlimit.Listen(s.tcp, connlimit.Limits{PerSource: sourceClients, Total: allClients}, nil, s.config.Log)
		spawn(func() { s.serveUDP(work, spawn) })
		spawn(func() {
			connlimit.Accept(limited, s.config.Log, func(c net.Conn) { spawn(func() { s.serveTCP(work, c) }) })
		})
		return nil
	})
}

// listen opens the same port for UDP and TCP.
func (s *Server) listen(ctx context.Context) error {
	var err error
	if s.tcp, err = s.config.Listeners.TCP(ctx, s.config.Listen); err != nil {
		return err
	}
	port := uint16(s.tcp.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert,gosec // it is one of TCP
	s.udp, err = s.config.Listeners.UDP(netip.AddrPortFrom(s.config.Listen.Addr(), port))
	if err != nil {
		s.tcp.Close()
	}
	return err
}

// Addr returns the address of the server, once started.
func (s *Server) Addr() netip.AddrPort {
	return s.tcp.Addr().(*net.TCPAddr).AddrPort() //nolint:forcetypeassert // it is one of TCP
}

// Stop stops the server.
func (s *Server) Stop() {
	s.Halt(func() {
		_ = s.udp.Close()
		_ = s.tcp.Close()
	})
}

func (s *Server) serveUDP(ctx context.Context, spawn func(func())) {
	buffer := make([]byte, largestUDP)
	for ctx.Err() == nil {
		n, from, err := s.udp.ReadFromUDPAddrPort(buffer)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			// For example a response that the client rejected.
			time.Sleep(time.Millisecond)
			continue
		}
		source := from.Addr().Unmap()
		if !s.config.May(source) {
			continue
		}
		slot := s.queries.Take(source.String(), func() {})
		if slot == nil {
			continue // the resolver asks again
		}
		query := append([]byte(nil), buffer[:n]...)
		spawn(func() {
			defer slot.Release()
			if answer := s.answer(ctx, query, "udp"); answer != nil {
				_, _ = s.udp.WriteToUDPAddrPort(answer, from) // the resolver repeats the query
			}
		})
	}
}

func (s *Server) serveTCP(ctx context.Context, c net.Conn) {
	defer c.Close()
	stop := background.OnDone(ctx, "name server", func() { c.Close() })
	defer stop()
	if !s.config.May(connlimit.Address(c.RemoteAddr())) {
		return
	}
	for {
		_ = c.SetDeadline(time.Now().Add(clientTime))
		query, err := readMessage(c)
		if err != nil {
			return
		}
		answer := s.answer(ctx, query, "tcp")
		if answer == nil || writeMessage(c, answer) != nil {
			return
		}
	}
}

// answer returns the response to a query; nil if it is malformed.
func (s *Server) answer(ctx context.Context, query []byte, network string) []byte {
	var p dnsmessage.Parser
	header, err := p.Start(query)
	if err != nil || header.Response {
		return nil
	}
	question, err := p.Question()
	if err != nil {
		return reply(header, nil, dnsmessage.RCodeFormatError, 0)
	}
	name := strings.ToLower(strings.TrimSuffix(question.Name.String(), "."))
	if header.OpCode == 0 && question.Class == dnsmessage.ClassINET {
		if s.config.Internal != nil {
			if addresses, exists, below := s.config.Internal(name); below {
				code := dnsmessage.RCodeSuccess
				if !exists {
					code = dnsmessage.RCodeNameError
				}
				return reply(header, &question, code, internalTTL, addresses...)
			}
		}
		if s.config.Ours(name) {
			return reply(header, &question, dnsmessage.RCodeSuccess, ttl, s.config.Answer)
		}
	}
	for _, at := range s.config.Upstreams() {
		if answer, err := ask(ctx, network, at, query); err == nil {
			return answer
		}
	}
	return reply(header, &question, dnsmessage.RCodeServerFailure, 0)
}

// reply builds a response with the platform's own data. A platform name has no records but
// addresses.
func reply(to dnsmessage.Header, q *dnsmessage.Question, code dnsmessage.RCode, seconds uint32,
	addresses ...netip.Addr) []byte {
	ours := code == dnsmessage.RCodeSuccess || code == dnsmessage.RCodeNameError
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{
		ID: to.ID, Response: true, OpCode: to.OpCode, Authoritative: ours, RecursionDesired: to.RecursionDesired,
		RecursionAvailable: true, RCode: code,
	})
	err := b.StartQuestions()
	if q != nil {
		err = errors.Join(err, b.Question(*q))
		err = errors.Join(err, b.StartAnswers())
		for _, a := range addresses {
			if a.Is4() && (q.Type == dnsmessage.TypeA || q.Type == dnsmessage.TypeALL) {
				err = errors.Join(err, b.AResource(
					dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: seconds},
					dnsmessage.AResource{A: a.As4()}))
			}
		}
	}
	out, failed := b.Finish()
	if err != nil || failed != nil {
		return nil
	}
	return out
}

// ask forwards a query to a name server and returns its response.
func ask(ctx context.Context, network string, at netip.AddrPort, query []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, upstreamTime)
	defer cancel()
	var dialer net.Dialer
	c, err := dialer.DialContext(ctx, network, at.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := background.OnDone(ctx, "name server", func() { c.Close() })
	defer stop()
	if network == "tcp" {
		if err := writeMessage(c, query); err != nil {
			return nil, err
		}
		return readMessage(c)
	}
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.Read(buffer)
		if err != nil {
			return nil, err
		}
		// Skip late responses to an older query from the same port.
		if n >= 2 && buffer[0] == query[0] && buffer[1] == query[1] {
			return buffer[:n], nil
		}
	}
}

// A message over TCP is prefixed by its length.

func readMessage(r io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(r, message)
	return message, err
}

func writeMessage(w io.Writer, message []byte) error {
	if len(message) > 1<<16-1 {
		return errors.New("message is too long")
	}
	_, err := w.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), //nolint:gosec // checked
		message...))
	return err
}
