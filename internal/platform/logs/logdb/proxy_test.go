package logdb_test

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"ingot/internal/base/testkit"
)

// proxy passes connections to a database, until it is stopped.
type proxy struct {
	t      *testing.T
	target string
	at     string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	copies   sync.WaitGroup
}

func newProxy(t *testing.T, database string) (p *proxy, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	host := u.Host
	p = &proxy{t: t, target: host}
	if h := u.Query().Get("host"); strings.HasPrefix(h, "/") { // a folder with a socket
		p.target = filepath.Join(h, ".s.PGSQL."+cmp.Or(u.Query().Get("port"), "5432"))
	}
	p.listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(testkit.FreePort(t)))) // the database comes back there
	t.Cleanup(p.stop)
	q := u.Query()
	q.Del("host")
	q.Del("port")
	q.Set("sslmode", "disable")
	u.RawQuery, u.Host = q.Encode(), p.at
	return p, u.String()
}

func (p *proxy) listen(at string) {
	p.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(p.t.Context(), "tcp", at)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.listener, p.at = l, l.Addr().String()
	p.mu.Unlock()
	p.copies.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := p.dial()
			if err != nil {
				in.Close()
				continue
			}
			p.mu.Lock()
			if p.listener != l { // stop has closed the others meanwhile, and waits
				p.mu.Unlock()
				in.Close()
				out.Close()
				return
			}
			p.conns = append(p.conns, in, out)
			p.mu.Unlock()
			for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
				p.copies.Go(func() {
					_, _ = io.Copy(pair[0], pair[1])
					pair[0].Close()
				})
			}
		}
	})
}

func (p *proxy) dial() (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(p.target, "/") {
		network = "unix"
	}
	return (&net.Dialer{}).DialContext(context.Background(), network, p.target)
}

func (p *proxy) stop() {
	p.mu.Lock()
	if p.listener != nil {
		p.listener.Close()
	}
	for _, c := range p.conns {
		c.Close()
	}
	p.listener, p.conns = nil, nil
	p.mu.Unlock()
	p.copies.Wait()
}
