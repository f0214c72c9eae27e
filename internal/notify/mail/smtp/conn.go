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

// conn is one connection. Only bound and close may be called from other
// goroutines than its worker's.
type conn struct {
	config *Config
	net    net.Conn
	r      *bufio.Reader
	w      *bufio.Writer

	encrypted  bool
	pipelining bool
	eightBit   bool
	utf8       bool
	maxSize    int // 0: not said
	sized      bool
	startTLS   bool
	auth       []string

	messages int       // sent over it
	used     time.Time // when it was last put back
	reset    bool      // a transaction is open that RSET has to end
	heard    bool      // the server answered since the connection was taken
	gone     bool      // the server closes it, or does not follow any more
	settled  func(error)

	mu    sync.Mutex
	limit time.Time // no deadline goes beyond it, unless zero
	owing bool      // a content is on its way whose answer matters
}

// dial connects and does all that comes before the first message.
func dial(ctx context.Context, config *Config) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, config.Timeout)
	defer cancel()
	nc, err := (&net.Dialer{Timeout: min(15*time.Second, config.Timeout)}).DialContext(ctx, "tcp", config.String())
	if err != nil {
		return nil, fmt.Errorf("the mail server %s cannot be reached: %w", config, err)
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
		return nil, fmt.Errorf("the mail server %s: %w", config, explain(err))
	}
	return c, nil
}

// use makes nc what is read from and written to.
func (c *conn) use(nc net.Conn) {
	c.net = nc
	c.r = bufio.NewReaderSize(nc, 2*maxReplyLine)
	c.w = bufio.NewWriterSize(nc, 32<<10)
}

// bound ends all that waits on the connection at t, now or later.
func (c *conn) bound(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = t
	_ = c.net.SetDeadline(t)
}

// leave ends what waits on the connection: at once, or if the server has a
// message for which it did not answer yet, after grace.
func (c *conn) leave(grace time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = time.Now()
	if c.owing {
		c.limit = c.limit.Add(grace)
	}
	_ = c.net.SetDeadline(c.limit)
}

// owe tells leave whether there is something to wait for.
func (c *conn) owe(owing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owing = owing
}

// unbound takes the bound away.
func (c *conn) unbound() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = time.Time{}
}

// within sets the deadline of what follows.
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

// quit takes leave, shortly, and closes.
func (c *conn) quit() {
	c.unbound()
	c.within(min(time.Second, c.config.Timeout))
	if _, err := c.w.WriteString("QUIT\r\n"); err == nil && c.w.Flush() == nil {
		_, _ = readReply(c.r)
	}
	c.close()
}

// read returns the next reply. What was written is sent first.
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
	if !c.heard && r.code != 421 {
		c.heard = true
	}
	return r, nil
}

// command writes a line and reads the reply. It must not hold a secret that an
// error may repeat; errors repeat replies only.
func (c *conn) command(line string) (reply, error) {
	c.within(c.config.Timeout)
	_, _ = c.w.WriteString(line) // an error comes back at the flush
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
		return fmt.Errorf("it greets with %s", r)
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
			return errors.New("it does not offer STARTTLS, which is required here (starttls=never in its address allows plain text)")
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
		// A server from before 1995 knows no extensions.
		if r, err = c.command("HELO " + name); err != nil {
			return err
		}
		if r.code != 250 {
			return fmt.Errorf("it answers HELO with %s", r)
		}
		return nil
	}
	if r.code != 250 {
		return fmt.Errorf("it answers EHLO with %s", r)
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

// ownName is the host name, if it is a full one, or the address in brackets.
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
		return fmt.Errorf("it answers STARTTLS with %s", r)
	}
	// What came behind the answer was not encrypted, and would be taken for
	// what the server says after the handshake.
	if c.r.Buffered() > 0 {
		return errors.New("it sent something between STARTTLS and the handshake: somebody may be in between, the connection is not used")
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
		return fmt.Errorf("the TLS handshake failed: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(t)
	c.encrypted = true
	return nil
}

// explain says in plain words what the network's errors mean.
func explain(err error) error {
	var timeout net.Error
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return errors.New("it did not answer in time")
	default:
		return err
	}
}
