package sample

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Main runs a program and exits, with an error message if it failed. The log goes
// to standard output; the platform marks lines of standard error as errors.
func Main(run func(ctx context.Context) error) {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime})))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withoutTime removes the time: the platform adds a time to every line.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

// WebAddress returns the address on which the platform expects an app to listen:
// all interfaces, on the port in PORT, by default 8080.
func WebAddress() string {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	return ":" + port
}

// shutdownTimeout is how long active requests may take when the platform stops an
// app. It waits ten seconds before it kills the app.
const shutdownTimeout = 8 * time.Second

// Serve serves on all listeners until ctx is done. It finishes active requests
// before it returns.
func Serve(ctx context.Context, handler http.Handler, listeners ...net.Listener) error {
	return ServeWith(ctx, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}, listeners...)
}

// ServeWith is like Serve, with a server of the caller's. A server with a TLS
// configuration serves TLS.
func ServeWith(ctx context.Context, server *http.Server, listeners ...net.Listener) error {
	ended := make(chan error, len(listeners))
	encrypted := server.TLSConfig != nil // the first listener that is served sets it for HTTP/2
	for _, l := range listeners {
		slog.Info("listening", "address", l.Addr().String())
		go func() {
			if encrypted {
				ended <- server.ServeTLS(l, "", "")
				return
			}
			ended <- server.Serve(l)
		}()
	}
	select {
	case err := <-ended:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	//nolint:contextcheck // the canceled context cannot limit the shutdown
	last, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return server.Shutdown(last)
}

// ServeWeb serves on WebAddress until ctx is done.
func ServeWeb(ctx context.Context, handler http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", WebAddress())
	if err != nil {
		return err
	}
	return Serve(ctx, handler, l)
}

// JSON responds with a value as indented JSON, for reading in a browser.
func JSON(w http.ResponseWriter, status int, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		slog.Error("an answer cannot be written as JSON", "error", err)
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have disconnected
}
