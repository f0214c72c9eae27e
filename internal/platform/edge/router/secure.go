package router

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// headerClientCert carries the client's certificate to the app. Unless the router is
	// told otherwise, a value that a client sends is removed.
	headerClientCert = "X-Forwarded-Client-Cert"
	headerHSTS       = "Strict-Transport-Security"

	protoHTTP2 = "h2"
	protoACME  = "acme-tls/1" // a certificate authority checks a name; nothing follows
)

// HandshakeTimeout is how long a client may take for a TLS handshake.
const HandshakeTimeout = fastHead

// TLS lets a fast path terminate TLS.
type TLS struct {
	Config *tls.Config
	// HSTS is the Strict-Transport-Security header of responses that have none; "" adds
	// none.
	HSTS string
}

// NewTLSFastPath is like NewFastPath, for clients that use TLS.
func NewTLSFastPath(l net.Listener, t TLS) *FastPath {
	e := NewFastPath(l)
	e.tls = &t
	return e
}

// ClientCerts is what becomes of client certificates, with the names that gorouter has for
// it. The zero value removes X-Forwarded-Client-Cert headers.
type ClientCerts string

// The values of ClientCerts.
const (
	// AlwaysForward passes the header of all clients on.
	AlwaysForward ClientCerts = "always_forward"
	// Forward passes on the header of clients that have a certificate.
	Forward ClientCerts = "forward"
	// SanitizeSet sets the header to the client's certificate.
	SanitizeSet ClientCerts = "sanitize_set"
)

// apply sets or removes the header of a request to an app. As in gorouter, a route service
// passes on what it got.
func (m ClientCerts) apply(h http.Header, x *exchange) {
	certified := x.tls != nil && len(x.tls.PeerCertificates) > 0
	keep := m == AlwaysForward && !x.returned || m == Forward && (certified || x.returned) ||
		m == SanitizeSet && x.returned
	if !keep {
		h.Del(headerClientCert)
	}
	if m == SanitizeSet && certified && !x.returned {
		h.Set(headerClientCert, base64.StdEncoding.EncodeToString(x.tls.PeerCertificates[0].Raw))
	}
}

// securedConn is a client's connection with TLS.
type securedConn struct {
	*tls.Conn
	below *handedConn // between TLS and the socket
	state tls.ConnectionState
	name  string // that the client asked for
}

// handshake performs the TLS handshake. It returns false if the connection is closed.
func (c *fastConn) handshake() bool {
	below := &handedConn{unreadConn{c.socket, nil}, &c.path.connWatch}
	secured := &securedConn{Conn: tls.Server(below, c.path.tls.Config), below: below}
	_ = c.socket.SetDeadline(time.Now().Add(HandshakeTimeout))
	c.waits.Store(time.Now().UnixNano())
	if c.evicted.Load() {
		_ = c.socket.Close()
		return false
	}
	err := secured.HandshakeContext(context.Background()) // the deadline bounds it
	c.waits.Store(0)
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader[:]) {
		_, _ = io.WriteString(plain.Conn,
			"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+
				"400 Bad Request: This port serves HTTPS. Use https:// instead of http://.\n")
	}
	if err == nil {
		secured.state = secured.ConnectionState()
		if secured.state.NegotiatedProtocol == protoACME {
			err = net.ErrClosed
		}
	}
	if err != nil || c.path.isClosing() {
		_ = c.socket.Close()
		return false
	}
	secured.name = CanonicalHost(secured.state.ServerName)
	_ = c.socket.SetDeadline(time.Time{})
	c.conn, c.secured = secured.Conn, secured
	return true
}

func looksLikeHTTP(b []byte) bool {
	switch string(b) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET":
		return true
	}
	return false
}

// http1 reports whether the fast path may serve the connection: it is not HTTP/2, and the
// app does not get a client certificate.
func (s *securedConn) http1(p *Proxy) bool {
	return s.state.NegotiatedProtocol != protoHTTP2 && (p.options.ClientCerts == "" || len(s.state.PeerCertificates) == 0)
}

// named reports whether the client asked for a host in its handshake.
func (s *securedConn) named(host string) bool { return s.name != "" && s.name == CanonicalHost(host) }

// handedTLS is a connection with TLS that is handed to the server for HTTP/1.
type handedTLS struct {
	unreadConn
	secured *tls.Conn
}

var _ interface {
	ConnectionState() tls.ConnectionState
} = (*handedTLS)(nil) // as net/http expects it

// ConnectionState lets the server set Request.TLS.
func (c *handedTLS) ConnectionState() tls.ConnectionState { return c.secured.ConnectionState() }
