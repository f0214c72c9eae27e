package dsn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/notify/mail/address"
)

// Options configure a Listener.
type Options struct {
	// Addr is the address to listen on, "host:port".
	Addr string
	// Return is the address to which reports are sent. Bounces go to the envelope sender of outgoing mail,
	// local+TAG@domain.
	Return string
	// Open returns the id of the message that a tag was made for, and false for other texts.
	Open func(tag string) (id string, ok bool)
	// Bounce is called for each recipient of each report about a message that
	// this server sent, and Complaint for each complaint about one. They return whether it counts. After an error, the
	// reporting server tries again later.
	Bounce    func(context.Context, Bounce) (bool, error)
	Complaint func(context.Context, Complaint) (bool, error)
	Log       *slog.Logger
	Registry  prometheus.Registerer
	// Bytes limits the size of a report, Connections the number of open
	// connections; 0 means 1 MiB and 50.
	Bytes       int64
	Connections int
	Timeout     time.Duration // of one read or write; 0 means a minute
}

// Listener is a mail server that accepts only reports. It is a
// background.Service.
type Listener struct {
	background.Part
	options       Options
	local, domain string // of Return
	addr          atomic.Value
	telling       sync.RWMutex // held for reading while Bounce or Complaint is called
	counted       *prometheus.CounterVec
}

// New returns a Listener.
func New(o Options) (*Listener, error) {
	addr, err := address.Parse(o.Return)
	if err != nil {
		return nil, fmt.Errorf("the address for bounces: %w", err)
	}
	if o.Bounce == nil || o.Complaint == nil || o.Open == nil {
		return nil, errors.New("a listener for bounces needs callbacks, and a function that opens tags")
	}
	if o.Bytes <= 0 {
		o.Bytes = 1 << 20
	}
	if o.Connections <= 0 {
		o.Connections = 50
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &Listener{options: o, domain: address.Domain(addr), counted: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "ingot_notify_mail_reports_total",
		Help: "Reports by mail after which an address got no more mail, by report: bounce, complaint.",
	}, []string{"report"})}
	if o.Registry != nil {
		o.Registry.MustRegister(l.counted)
	}
	l.local = strings.ToLower(addr[:strings.LastIndexByte(addr, '@')])
	return l, nil
}

// Start starts listening.
func (l *Listener) Start(ctx context.Context) error {
	return l.Launch(ctx, func(work context.Context, spawn func(func())) error {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", l.options.Addr)
		if err != nil {
			return fmt.Errorf("listen for bounces: %w", err)
		}
		l.addr.Store(listener.Addr().String())
		server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
			return &session{Listener: l, work: work}, nil
		}))
		server.Domain = l.domain
		server.MaxMessageBytes = l.options.Bytes
		server.MaxRecipients = 10
		server.MaxLineLength = 4096
		server.ReadTimeout, server.WriteTimeout = l.options.Timeout, l.options.Timeout
		server.EnableSMTPUTF8 = true
		server.ErrorLog = quiet{}
		spawn(func() {
			if err := server.Serve(&limited{Listener: listener, slots: make(chan struct{}, l.options.Connections),
				ended: work.Done()}); err != nil && work.Err() == nil {
				l.options.Log.Error("bounce listener failed", "error", err)
			}
		})
		spawn(func() {
			<-work.Done()
			listener.Close()
			_ = server.Close()
			// Close does not wait for sessions; Bounce and Complaint must not be
			// called after Stop.
			l.telling.Lock()
			defer l.telling.Unlock()
		})
		return nil
	})
}

// Stop closes all sessions.
func (l *Listener) Stop() { l.Halt(nil) }

// Addr returns the listening address, once started.
func (l *Listener) Addr() string {
	addr, _ := l.addr.Load().(string)
	return addr
}

// quiet discards the server's log of client errors.
type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// limited limits the number of accepted connections.
type limited struct {
	net.Listener
	slots chan struct{}
	ended <-chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.ended:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	return &slotted{Conn: c, release: l.slots}, nil
}

type slotted struct {
	net.Conn
	release chan struct{}
	closed  atomic.Bool
}

func (c *slotted) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		<-c.release
	}
	return c.Conn.Close()
}

// session is one connection.
type session struct {
	*Listener
	work context.Context //nolint:containedctx // canceled by Stop
	to   []string        // ids of messages by the tags of recipients, empty for the plain address
}

func (s *session) Reset()        { s.to = nil }
func (s *session) Logout() error { return nil }

// Mail accepts every sender: reports should have none, but some servers set
// one.
func (s *session) Mail(string, *smtp.MailOptions) error { return nil }

// Rcpt accepts only the address for reports, with the tag of a message or without one.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if id, ok := s.idOf(to); ok {
		s.to = append(s.to, id)
		return nil
	}
	return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1},
		Message: "only delivery reports and complaints about messages of this server are accepted here"}
}

// idOf returns the id of the message whose tag an address for reports has, empty for the plain address.
func (l *Listener) idOf(to string) (string, bool) {
	at := strings.LastIndexByte(to, '@')
	if at <= 0 || address.Domain(to) != l.domain {
		return "", false
	}
	// The address may itself have a plus sign, and is what the tag was appended to.
	name, n := to[:at], len(l.local)
	switch {
	case strings.EqualFold(name, l.local):
		return "", true
	case len(name) > n && name[n] == '+' && strings.EqualFold(name[:n], l.local):
		return l.options.Open(name[n+1:])
	}
	return "", false
}

// about returns the id of the message that a complaint is about, empty if nothing in it proves that its sender has
// seen the message. Complaints are sent to the plain address, with what they are about inside.
func (l *Listener) about(c content) string {
	for _, text := range []string{c.sender, c.path} {
		if id, ok := l.idOf(text); ok && id != "" {
			return id
		}
	}
	if id, ok := l.options.Open(c.tag); ok {
		return id
	}
	return ""
}

// Data parses a report and calls Bounce or Complaint.
func (s *session) Data(r io.Reader) error {
	c, err := parse(r)
	// The rest has to be read, or the server closes the connection.
	if _, rest := io.Copy(io.Discard, r); rest != nil {
		return rest
	}
	if err != nil {
		s.options.Log.Info("mail to the bounce address rejected", "reason", err.Error())
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 6, 0},
			Message: "only delivery reports (RFC 3464) and complaints (RFC 5965) are accepted here"}
	}
	s.telling.RLock()
	defer s.telling.RUnlock()
	if s.work.Err() != nil {
		return &smtp.SMTPError{Code: 421, EnhancedCode: smtp.EnhancedCode{4, 3, 2}, Message: "closing, try again later"}
	}
	for _, id := range s.to {
		if id == "" && c.complaint != nil {
			id = s.about(c)
		}
		if id == "" {
			s.options.Log.Info("a delivery report or complaint was ignored: it does not have the tag of a message")
			continue
		}
		if err := s.tell(id, c); err != nil {
			s.options.Log.Error("record bounce or complaint failed", "message", id, "error", err)
			return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0},
				Message: "the report cannot be recorded, try again later"}
		}
	}
	return nil
}

// tell calls the callbacks for a report about a message, and counts it.
func (s *session) tell(id string, c content) error {
	count := func(report string, counts bool, err error) error {
		if counts && err == nil {
			s.counted.WithLabelValues(report).Inc()
		}
		return err
	}
	for _, b := range c.bounces {
		b.MessageID = id
		counts, err := s.options.Bounce(s.work, b)
		if err := count("bounce", counts, err); err != nil {
			return err
		}
	}
	if c.complaint == nil {
		return nil
	}
	c.complaint.MessageID = id
	counts, err := s.options.Complaint(s.work, *c.complaint)
	return count("complaint", counts, err)
}
