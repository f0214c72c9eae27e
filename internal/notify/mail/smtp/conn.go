package smtp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/background"
)

// conn is one connection. Only bound and close may be called from goroutines
// other than its worker's.
type conn struct {
	config *Config
	net    net.Conn
	r      *bufio.Reader
	w      *bufio.Writer

	encrypted  bool
	pipelining bool
	eightBit   bool
	utf8       bool
	maxSize    int // 0 if not announced
	sized      bool
	startTLS   bool
	auth       []string

	messages  int       // sent over it
	used      time.Time // when it was last put back
	reset     bool      // a transaction is open and has to be aborted with RSET
	replied   bool      // the server has replied since the connection was taken from the pool
	outOfSync bool      // the server closes it, or is out of sync
	settled   func(error)

	mu       sync.Mutex
	limit    time.Time // latest deadline, unless zero
	awaiting bool      // waiting for the reply to a message's content
	// since is when it began to wait for answers to a message to domain; zero between messages. late reports that
	// this was too long, and isLent that its slot was given to another connection.
	since  time.Time
	domain string
	late   bool
	isLent bool
	// giveBack returns the message to the queue whose envelope follows the present content; nil if there is none.
	giveBack func()
}

// dial connects and does everything that precedes the first message.
func dial(ctx context.Context, config *Config) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	open := config.Dial
	if open == nil {
		open = (&net.Dialer{Timeout: min(15*time.Second, config.Timeout)}).DialContext
	}
	nc, err := open(ctx, "tcp", config.String())
	if err != nil {
		return nil, fmt.Errorf("connect to the mail server %s: %w", config, err)
	}
	c := &conn{config: config, net: nc}
	c.use(nc)
	stop := background.OnDone(ctx, "mail connection", func() { c.bound(time.Now()) })
	err = c.greet()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.close()
		if ctx.Err() != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("mail server %s: %w", config, explain(err))
	}
	return c, nil
}

// use makes nc the underlying connection.
func (c *conn) use(nc net.Conn) {
	c.net = nc
	c.r = bufio.NewReaderSize(nc, 2*maxReplyLine)
	c.w = bufio.NewWriterSize(nc, 32<<10)
}

// bound makes all reads and writes fail after t.
func (c *conn) bound(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	_ = c.net.SetDeadline(t)
}

// leave interrupts the connection: immediately, or, if a message was sent and
// has no reply yet, after grace.
func (c *conn) leave(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = time.Now()
	if c.awaiting {
		c.limit = c.limit.Add(grace)
	}
	_ = c.net.SetDeadline(c.limit)
}

// setAwaiting tells leave whether to wait for a reply.
func (c *conn) setAwaiting(awaiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awaiting = awaiting
}

// unbound removes the deadline of bound.
func (c *conn) unbound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = time.Time{}
}

// within sets the deadline of the following operations.
func (c *conn) within(d time.Duration) {
	t := time.Now().Add(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.limit.IsZero() && c.limit.Before(t) {
		t = c.limit
	}
	_ = c.net.SetDeadline(t)
}

func (c *conn) close() { c.net.Close() }

// quit sends QUIT with a short timeout and closes the connection.
func (c *conn) quit() {
	c.unbound()
	c.within(min(time.Second, c.config.Timeout))
	if _, err := c.w.WriteString("QUIT\r\n"); err == nil && c.w.Flush() == nil {
		_, _ = readReply(c.r)
	}
	c.close()
}

// read flushes the writer and returns the next reply.
func (c *conn) read() (reply, error) {
	if c.w.Buffered() > 0 {
		if err := c.w.Flush(); err != nil {
			return reply{}, err
		}
	}
	r, err := readReply(c.r)
	if err != nil {
		return r, err
	}
	if !c.replied && r.code != 421 {
		c.replied = true
	}
	return r, nil
}

// command writes a line and reads the reply. Errors contain only the reply,
// because the line may contain a secret.
func (c *conn) command(line string) (reply, error) {
	c.within(c.config.Timeout)
	_, _ = c.w.WriteString(line) // the flush returns the error
	_, _ = c.w.WriteString("\r\n")
	return c.read()
}

func (c *conn) greet() error {
	if c.config.Implicit {
		if err := c.handshake(); err != nil {
			return err
		}
	}
	c.within(c.config.Timeout)
	r, err := c.read()
	if err != nil {
		return fmt.Errorf("no greeting: %w", err)
	}
	if r.code != 220 {
		return fmt.Errorf("unexpected greeting %s", r)
	}
	if err := c.ehlo(); err != nil {
		return err
	}
	if !c.encrypted && c.config.starttls != startNever {
		switch {
		case c.startTLS:
			if err := c.upgrade(); err != nil {
				return err
			}
		case c.config.starttls == startRequired:
			return errors.New("STARTTLS is required but not offered (starttls=never in the URL allows plain text)")
		}
	}
	if c.config.user != "" {
		return c.authenticate()
	}
	return nil
}

func (c *conn) ehlo() error {
	c.pipelining, c.eightBit, c.utf8, c.sized, c.maxSize, c.startTLS, c.auth = false, false, false, false, 0, false, nil
	name := c.config.Name
	if name == "" {
		name = ownName(c.net.LocalAddr())
	}
	r, err := c.command("EHLO " + name)
	if err != nil {
		return err
	}
	if r.code/100 == 5 {
		// A very old server has no extensions.
		if r, err = c.command("HELO " + name); err != nil {
			return err
		}
		if r.code != 250 {
			return fmt.Errorf("HELO failed: %s", r)
		}
		return nil
	}
	if r.code != 250 {
		return fmt.Errorf("EHLO failed: %s", r)
	}
	for _, line := range r.lines[min(1, len(r.lines)):] {
		word, rest, _ := strings.Cut(line, " ")
		switch strings.ToUpper(word) {
		case "PIPELINING":
			c.pipelining = true
		case "8BITMIME":
			c.eightBit = true
		case "SMTPUTF8":
			c.utf8 = true
		case "STARTTLS":
			c.startTLS = true
		case "SIZE":
			c.sized = true
			c.maxSize, _ = strconv.Atoi(strings.TrimSpace(rest))
		case "AUTH":
			c.auth = strings.Fields(strings.ToUpper(rest))
		}
	}
	return nil
}

// ownName returns the host name, if it is fully qualified, or the address in
// brackets.
func ownName(local net.Addr) string {
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") && ehloName(name) {
		return name
	}
	host, _, err := net.SplitHostPort(local.String())
	ip := net.ParseIP(host)
	switch {
	case err != nil || ip == nil:
		return "localhost"
	case ip.To4() != nil:
		return "[" + ip.String() + "]"
	default:
		return "[IPv6:" + ip.String() + "]"
	}
}

func (c *conn) upgrade() error {
	r, err := c.command("STARTTLS")
	if err != nil {
		return err
	}
	if r.code != 220 {
		if c.config.starttls == startOpportunistic && c.config.user == "" {
			return nil
		}
		return fmt.Errorf("STARTTLS failed: %s", r)
	}
	// Data after the reply was not encrypted, and would be taken for data sent
	// after the handshake.
	if c.r.Buffered() > 0 {
		return errors.New("unexpected data between STARTTLS and the handshake: possible man in the middle")
	}
	if err := c.handshake(); err != nil {
		return err
	}
	return c.ehlo()
}

func (c *conn) handshake() error {
	c.within(c.config.Timeout)
	t := tls.Client(c.net, c.config.tlsConfig())
	if err := t.HandshakeContext(context.Background()); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(t)
	c.encrypted = true
	return nil
}

// explain describes network errors in plain words.
func explain(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("timeout")
	default:
		return err
	}
}
