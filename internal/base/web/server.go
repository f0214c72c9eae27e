package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
)

// Server serves one listener until stopped.
type Server struct {
	background.Part
	listener net.Listener
	http     *http.Server
	log      *slog.Logger
	grace    time.Duration
	retired  atomic.Bool
	open     atomic.Int64 // connections
	// endStreams cancels the context of Closing; nil before Start.
	endStreams atomic.Pointer[context.CancelFunc]
}

// NewServer returns a server of h on l. Reads and writes are limited by each
// route's Limits; headers and idle connections are limited here.
func NewServer(l net.Listener, h http.Handler, log *slog.Logger) *Server {
	// Unencrypted HTTP/2 with prior knowledge: gRPC, and proxies in front.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true) // on connections with TLS
	protocols.SetUnencryptedHTTP2(true)
	s := &Server{
		listener: l,
		log:      log,
		grace:    10 * time.Second,
		http: &http.Server{
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    128 << 10,
			Protocols:         protocols,
			HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250, SendPingTimeout: time.Minute,
				PingTimeout: 15 * time.Second},
			ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		},
	}
	s.http.Handler = s.announcing(h)
	s.http.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			s.open.Add(-1)
		case http.StateActive, http.StateIdle:
		}
	}
	return s
}

// announcing tells clients of a retired server that their connection is closed after the
// response: HTTP/1 by the header, HTTP/2, for which net/http translates it, by GOAWAY.
func (s *Server) announcing(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.retired.Load() && r.Header.Get("Upgrade") == "" {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// Start starts serving.
func (s *Server) Start(ctx context.Context) error {
	return s.Launch(ctx, func(work context.Context, spawn func(func())) error {
		closing, end := context.WithCancel(work)
		s.http.RegisterOnShutdown(end)
		s.endStreams.Store(&end)
		base := context.WithValue(work, closingKey{}, closing)
		s.http.BaseContext = func(net.Listener) context.Context { return base }
		spawn(func() {
			if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) && !s.retired.Load() {
				s.log.Error("server failed", "address", s.listener.Addr(), "error", err)
			}
		})
		return nil
	})
}

// EndStreams ends endless responses, see Closing.
func (s *Server) EndStreams() {
	if end := s.endStreams.Load(); end != nil {
		(*end)()
	}
}

// Retire stops accepting connections and fails no request: another process accepts on
// copies of the sockets, and every connection is closed after its next response, which says
// so. Stop has to follow.
func (s *Server) Retire() {
	s.retired.Store(true)
	if gentle, ok := s.listener.(interface{ Retire() }); ok {
		gentle.Retire()
		return
	}
	_ = s.listener.Close()
}

// Connections returns how many connections are open, except upgraded ones.
func (s *Server) Connections() int { return int(s.open.Load()) }

// CloseIdle closes the connections that wait for a request.
func (s *Server) CloseIdle() { s.http.SetKeepAlivesEnabled(false) }

// Stop stops accepting connections, waits a limited time for requests to
// finish, and closes the server.
func (s *Server) Stop() {
	s.HaltGently(func() {
		ctx, cancel := context.WithTimeout(context.Background(), s.grace)
		defer cancel()
		if s.http.Shutdown(ctx) != nil {
			_ = s.http.Close()
		}
	})
	// The listener of a server that was never started is closed here.
	_ = s.listener.Close()
}

type closingKey struct{}

// Closing returns a context that is canceled when the server of a request
// begins to stop. Endless responses, such as event streams, have to end then,
// because the server waits for them.
func Closing(request context.Context) context.Context {
	if closing, ok := request.Value(closingKey{}).(context.Context); ok {
		return closing
	}
	return request
}

// WithClosing returns a context for requests that no server has received: closing is that of
// what received them instead.
func WithClosing(ctx, closing context.Context) context.Context {
	return context.WithValue(ctx, closingKey{}, closing)
}

// Listen listens on a TCP address. Its error names the flag to change.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --%s (port 0 picks a free one)",
			addr, err, flag)
	}
	return l, nil
}
