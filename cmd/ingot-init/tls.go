package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"ingot/internal/platform/instance/initproto"
)

const (
	// maxTLS limits the connections through TLS, whose memory is that of the instance.
	maxTLS           = 256
	handshakeTimeout = 10 * time.Second
	// lingerTimeout limits how long a client may send after the app has closed the
	// connection.
	lingerTimeout = 30 * time.Second
	maxPEM        = 64 << 10
)

// terminator terminates TLS for the app.
type terminator struct {
	spec initproto.TLS
	user int // who reads the files

	mu        sync.Mutex
	cert, key []byte // of pair
	pair      *tls.Certificate
}

// terminateTLS starts to accept connections, before the app could use the port.
func terminateTLS(spec initproto.Spec) error {
	if spec.TLS == nil {
		return nil
	}
	l, err := net.Listen("tcp", ":"+strconv.Itoa(spec.TLS.Port)) //nolint:noctx // it does not wait
	if err != nil {
		return err
	}
	t := &terminator{spec: *spec.TLS, user: spec.User}
	go t.serve(l)
	return nil
}

func (t *terminator) serve(l net.Listener) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: t.certificate}
	slots := make(chan struct{}, maxTLS)
	for {
		slots <- struct{}{}
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // most likely the app uses all file descriptors
			<-slots
			time.Sleep(longestPause)
			continue
		}
		go func() {
			defer func() { <-slots }()
			// A defect here must not end the instance.
			defer func() { _ = recover() }()
			t.pass(tls.Server(conn, config))
		}()
	}
}

// pass passes a connection on to the app. When either side stops sending, the other gets
// to know and can still answer.
func (t *terminator) pass(client *tls.Conn) {
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if client.HandshakeContext(ctx) != nil {
		return
	}
	conn, err := connect(ctx, initproto.Check{}, t.spec.To)
	if err != nil {
		return
	}
	defer conn.Close()
	app := conn.(*net.TCPConn)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		defer func() { _ = recover() }()
		_, _ = io.Copy(app, client)
		_ = app.CloseWrite()
	}()
	_, _ = io.Copy(client, app)
	_ = client.CloseWrite()
	_ = client.SetReadDeadline(time.Now().Add(lingerTimeout))
	<-sent
}

// certificate returns the certificate in the files. While they are being replaced, they may
// not fit together: then it returns the one before.
func (t *terminator) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := readAs(t.user, t.spec.Certificate)
	if err != nil {
		return nil, err
	}
	key, err := readAs(t.user, t.spec.Key)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pair != nil && bytes.Equal(cert, t.cert) && bytes.Equal(key, t.key) {
		return t.pair, nil
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil && t.pair == nil {
		return nil, err
	}
	if err == nil {
		t.pair, t.cert, t.key = &pair, cert, key
	}
	return t.pair, nil
}

// readPEM reads a small regular file.
func readPEM(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|nonBlock, 0) // a pipe there must not block
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", path)
	}
	return io.ReadAll(io.LimitReader(f, maxPEM))
}
