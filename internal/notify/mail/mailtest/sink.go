package mailtest

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options configure a sink. The zero value is a server without TLS, with all
// extensions, that accepts everything.
type Options struct {
	// TLS: "" none, "starttls", or "implicit".
	TLS string
	// Users are passwords by user name; if there are any, AUTH is required.
	Users map[string]string
	// Mechanisms offered; nil means all three.
	Mechanisms []string
	// Without lists extensions to disable, by their EHLO keyword.
	Without []string
	// Size is the limit announced by the SIZE extension.
	Size int
	// Keep is how many messages are kept for Messages; 0 keeps none.
	Keep int
	// Fault is called at every step; nil never interferes.
	Fault Fault
	// Content is called when the header of a message has arrived, before the
	// reply, with the ids of this message and of the one accepted before it on
	// the same connection, which may be empty.
	Content func(connection int, previous, current string)
	// Addr is the address to listen on; empty means a free port on loopback.
	Addr string
}

// Message is a received message.
type Message struct {
	Connection int
	From, To   string
	ID         string // of the Message-ID header, without brackets and domain
	Data       string // as sent, dots unescaped
	UTF8       bool
}

// Sink is a running server.
type Sink struct {
	options  Options
	listener net.Listener
	tls      *tls.Config
	pool     *certificates

	mu          sync.Mutex
	conns       map[net.Conn]bool
	connections int
	accepted    int
	byID        map[string]int
	messages    []Message
	violations  []string
	closed      bool
	work        sync.WaitGroup
	ended       chan struct{} // closed by Close
	changed     chan struct{} // closed and replaced when something was accepted
}

// New starts a sink that is closed at the end of the test.
func New(t testing.TB, options Options) *Sink {
	t.Helper()
	s, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start starts a sink outside of tests. The caller must close it.
func Start(options Options) (*Sink, error) {
	s := &Sink{
		options: options, conns: map[net.Conn]bool{}, byID: map[string]int{},
		ended: make(chan struct{}), changed: make(chan struct{}),
	}
	if options.TLS != "" {
		var err error
		if s.pool, err = newCertificates(); err != nil {
			return nil, err
		}
		s.tls = s.pool.server
	}
	addr := options.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	var err error
	if s.listener, err = net.Listen("tcp", addr); err != nil {
		return nil, err
	}
	s.work.Go(s.serve)
	return s, nil
}

// Addr returns host and port.
func (s *Sink) Addr() string { return s.listener.Addr().String() }

// URL returns the URL for a client; userinfo is empty or "user:password".
func (s *Sink) URL(userinfo, query string) string {
	scheme := "smtp"
	if s.options.TLS == "implicit" {
		scheme = "smtps"
	}
	if userinfo != "" {
		userinfo += "@"
	}
	if query != "" {
		query = "?" + query
	}
	return scheme + "://" + userinfo + s.Addr() + query
}

// ClientTLS returns a configuration that trusts the sink's certificate.
func (s *Sink) ClientTLS() *tls.Config { return s.pool.client.Clone() }

// Close closes the listener and all connections.
func (s *Sink) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	close(s.ended)
	_ = s.listener.Close()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.work.Wait()
}

// Accepted returns the number of accepted messages.
func (s *Sink) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Connections returns the number of connections opened so far.
func (s *Sink) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections
}

// Open returns the number of open connections.
func (s *Sink) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Received returns how often each message id was accepted.
func (s *Sink) Received() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]int, len(s.byID))
	for id, n := range s.byID {
		all[id] = n
	}
	return all
}

// Messages returns the kept messages.
func (s *Sink) Messages() []Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Message(nil), s.messages...)
}

// Violations returns the protocol violations of clients.
func (s *Sink) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.violations...)
}

// Changed returns a channel that is closed when the next message is accepted or a
// connection ends.
func (s *Sink) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Wait waits until n messages were accepted; it returns false after a timeout.
func (s *Sink) Wait(n int, within time.Duration) bool {
	timeout := time.After(within)
	for {
		changed := s.Changed()
		if s.Accepted() >= n {
			return true
		}
		select {
		case <-changed:
		case <-timeout:
			return false
		}
	}
}

func (s *Sink) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Sink) violation(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.violations) < 100 {
		s.violations = append(s.violations, text)
	}
}

func (s *Sink) accept(m *Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted++
	s.byID[m.ID]++
	if len(s.messages) < s.options.Keep {
		s.messages = append(s.messages, *m)
	}
	s.signal()
}

func (s *Sink) serve() {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			nc.Close()
			return
		}
		s.conns[nc] = true
		s.connections++
		number := s.connections
		s.mu.Unlock()
		s.work.Go(func() {
			s.session(nc, number)
			nc.Close()
			s.mu.Lock()
			delete(s.conns, nc)
			s.signal()
			s.mu.Unlock()
		})
	}
}

// session is one connection.
type session struct {
	*Sink
	net       net.Conn
	r         *bufio.Reader
	w         *bufio.Writer
	number    int
	encrypted bool
	user      string

	from, to string
	mail     bool
	rcpt     bool
	utf8     bool
	previous string
}

var errEnd = errors.New("the connection is to end")

func (s *Sink) session(nc net.Conn, number int) {
	c := &session{Sink: s, net: nc, number: number}
	if s.options.TLS == "implicit" {
		t := tls.Server(nc, s.tls)
		if t.Handshake() != nil {
			return
		}
		c.net, c.encrypted = t, true
	}
	c.buffer()
	if c.answer(Step{Stage: Connect}, "220 sink.test ESMTP\r\n") != nil {
		_ = c.w.Flush() // a refusal
		return
	}
	for c.line() == nil { //nolint:revive // line does it all
	}
	_ = c.w.Flush()
}

func (c *session) buffer() {
	c.r = bufio.NewReaderSize(c.net, 64<<10)
	c.w = bufio.NewWriterSize(c.net, 4<<10)
}

// line reads one command and replies.
func (c *session) line() error {
	if c.r.Buffered() == 0 && c.w.Flush() != nil {
		return errEnd
	}
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return errEnd
	}
	if !bytes.HasSuffix(line, []byte("\r\n")) {
		c.violation("a line without CR LF")
		return errEnd
	}
	line = line[:len(line)-2]
	switch verb := strings.ToUpper(string(line[:min(4, len(line))])); verb {
	case "MAIL":
		return c.mailFrom(string(line))
	case "RCPT":
		return c.rcptTo(string(line))
	case "DATA":
		return c.data()
	case "EHLO", "HELO":
		return c.hello(verb, string(line))
	case "STAR":
		return c.startTLS()
	case "AUTH":
		return c.auth(string(line))
	case "RSET":
		c.clear()
		return c.write("250 2.0.0 Ok\r\n")
	case "NOOP":
		return c.write("250 2.0.0 Ok\r\n")
	case "QUIT":
		_ = c.write("221 2.0.0 Bye\r\n")
		return errEnd
	default:
		c.violation("unknown command " + verb)
		return c.write("500 5.5.2 unknown command\r\n")
	}
}

func (c *session) clear() { c.mail, c.rcpt, c.utf8, c.from, c.to = false, false, false, "", "" }

func (c *session) write(s string) error {
	if _, err := c.w.WriteString(s); err != nil {
		return errEnd
	}
	return nil
}

// answer writes the normal reply unless a fault replaces it. It returns
// errRefused if the fault rejects the command.
func (c *session) answer(step Step, usual string) error {
	if c.options.Fault == nil {
		return c.write(usual)
	}
	step.Connection, step.To, step.From = c.number, c.to, c.from
	a := c.options.Fault(step)
	if a.Delay > 0 {
		_ = c.w.Flush()
		select {
		case <-time.After(a.Delay):
		case <-c.ended:
		}
	}
	switch {
	case a.Hang:
		_ = c.w.Flush()
		select {
		case <-c.ended:
		case <-a.Until:
		}
		return errEnd
	case a.Drop:
		_ = c.w.Flush()
		if tcp, ok := c.net.(*net.TCPConn); ok && a.Reset {
			_ = tcp.SetLinger(0)
		}
		return errEnd
	case a.Reply != "":
		if err := c.write(a.Reply + "\r\n"); err != nil {
			return err
		}
		if strings.HasPrefix(a.Reply, "421") {
			return errEnd
		}
		if strings.HasPrefix(a.Reply, "2") || strings.HasPrefix(a.Reply, "3") {
			return nil
		}
		return errRefused
	}
	return c.write(usual)
}

var errRefused = errors.New("refused")

func (c *session) hello(verb, _ string) error {
	if verb == "HELO" {
		return c.write("250 sink.test\r\n")
	}
	lines := []string{"sink.test"}
	for _, extension := range []string{"PIPELINING", "8BITMIME", "SMTPUTF8", "ENHANCEDSTATUSCODES", "SIZE",
		"STARTTLS", "AUTH"} {
		if contains(c.options.Without, extension) {
			continue
		}
		switch extension {
		case "SIZE":
			extension += " " + itoa(c.options.Size)
		case "STARTTLS":
			if c.options.TLS != "starttls" || c.encrypted {
				continue
			}
		case "AUTH":
			if len(c.options.Users) == 0 {
				continue
			}
			extension += " " + strings.Join(c.mechanisms(), " ")
		}
		lines = append(lines, extension)
	}
	var b strings.Builder
	for i, l := range lines {
		separator := "-"
		if i == len(lines)-1 {
			separator = " "
		}
		b.WriteString("250" + separator + l + "\r\n")
	}
	err := c.answer(Step{Stage: Hello}, b.String())
	if errors.Is(err, errRefused) {
		return nil
	}
	return err
}
