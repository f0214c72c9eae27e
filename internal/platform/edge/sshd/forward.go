package sshd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

const (
	maxHost      = 253
	maxAddresses = 8 // per name
)

// forward serves a direct-tcpip channel: a connection from inside the instance.
func (c *connection) forward(ctx context.Context, nc ssh.NewChannel) {
	var m struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(nc.ExtraData(), &m) != nil || m.Port == 0 || m.Port > 65535 || !isHost(m.Host) {
		_ = nc.Reject(ssh.Prohibited, "no such address")
		return
	}
	conn, err := c.dial(ctx, m.Host, strconv.FormatUint(uint64(m.Port), 10))
	if err != nil {
		c.server.c.Log.DebugContext(ctx, "forwarding a connection failed", "host", m.Host, "port", m.Port, "error", err)
		_ = nc.Reject(ssh.ConnectionFailed, failure(err))
		c.gone(err)
		return
	}
	defer conn.Close()
	channel, requests, err := nc.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	c.splice(conn, channel, requests)
}

// isHost reports whether a string can be the host of an address. In particular it is not an
// option of a program.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && len(host) <= maxHost && host[0] != '-' &&
		!strings.ContainsFunc(host, func(c rune) bool { return notInGUID(c) && c != '.' })
}

// failure returns the part of an error that the client may know.
func failure(err error) string {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route to host"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
		return "connection timed out"
	case errors.Is(err, errUnknownHost):
		return "unknown host"
	}
	return "connection failed"
}

var errUnknownHost = errors.New("unknown host in the instance")

// dial connects from inside the instance, where names may resolve differently than here: so
// they are resolved in the instance.
func (c *connection) dial(ctx context.Context, host, port string) (net.Conn, error) {
	s := c.server
	ctx, cancel := context.WithTimeout(ctx, s.limits.StartTimeout)
	defer cancel()
	hosts := []string{host}
	if _, err := netip.ParseAddr(host); err != nil && !strings.EqualFold(host, "localhost") {
		if hosts, err = c.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	var errs []error
	for _, h := range hosts {
		conn, err := s.c.Engine.Dial(ctx, c.access.InstanceID, "tcp", net.JoinHostPort(strings.ToLower(h), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// resolve asks the instance for the addresses of a name, in its order. If it cannot be
// asked, the name itself is returned for the engine to try.
func (c *connection) resolve(ctx context.Context, host string) ([]string, error) {
	p, err := c.server.c.Engine.Exec(ctx, c.access.InstanceID, engine.ExecRequest{
		Args: script(`command -v getent >/dev/null || exit 127; exec getent ahosts "$1"`, host),
	})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	stop := background.OnDone(ctx, "ssh forwarding", func() { _ = p.Signal(signalNumbers["KILL"]) })
	defer stop()
	_ = p.Stdin().Close()
	var discard background.WaitGroup
	discard.Go("ssh forwarding", func() { _, _ = io.Copy(io.Discard, p.Stderr()) })
	var all []string
	lines := bufio.NewScanner(io.LimitReader(p.Stdout(), 64<<10))
	for lines.Scan() {
		word, _, _ := strings.Cut(lines.Text(), " ")
		if _, err := netip.ParseAddr(word); err == nil && !slices.Contains(all, word) && len(all) < maxAddresses {
			all = append(all, word)
		}
	}
	_, _ = io.Copy(io.Discard, p.Stdout())
	discard.Wait()
	status, err := p.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case status == 127:
		return []string{host}, nil
	case len(all) == 0:
		return nil, errUnknownHost
	}
	return all, nil
}

// splice copies in both directions. The end of one direction is passed on and leaves the
// other open; it returns when both have ended or either side has failed.
func (c *connection) splice(conn net.Conn, channel ssh.Channel, requests <-chan *ssh.Request) {
	var both, watch background.WaitGroup
	watch.Go("ssh forwarding", func() {
		ssh.DiscardRequests(requests)
		conn.Close() // the client has closed the channel
	})
	both.Go("ssh forwarding", func() {
		defer c.server.contain(c.end)
		if _, err := io.Copy(struct{ io.Writer }{conn}, channel); err != nil {
			conn.Close()
			return
		}
		closeWrite(conn)
	})
	both.Go("ssh forwarding", func() {
		defer c.server.contain(c.end)
		if _, err := io.Copy(channel, struct{ io.Reader }{conn}); err != nil {
			_ = channel.Close()
			return
		}
		_ = channel.CloseWrite()
	})
	both.Wait()
	_ = channel.Close()
	watch.Wait()
}

// closeWrite closes the write side, if the connection supports that.
func closeWrite(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		return
	}
	conn.Close()
}
