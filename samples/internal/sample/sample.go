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

// Main runs a program and ends it: with what went wrong, if anything did. Its log
// goes to standard output, which the platform shows as the app's own words; what
// it shows as errors is standard error.
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

// withoutTime leaves out the time: the platform gives every line its own.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey && len(groups) == 0 {
		return slog.Attr{}
	}
	return a
}

// WebAddress is where the platform wants an app to listen: every address, on
// the port in PORT. On a developer's machine nothing says so, and it is 8080.
func WebAddress() string {
	port := os.Getenv("PORT")
	if port == "" {
		port = "8080"
	}
	return ":" + port
}

// drain is how long requests under way may take when the platform ends an app.
// It waits ten seconds before it kills.
const drain = 8 * time.Second

// Serve answers on all the listeners until the context ends. Requests under way
// are answered before it returns.
func Serve(ctx context.Context, handler http.Handler, listeners ...net.Listener) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		slog.Info("listening", "address", l.Addr().String())
		go func() { ended <- server.Serve(l) }()
	}
	select {
	case err := <-ended:
		return errors.Join(err, server.Close())
	case <-ctx.Done():
	}
	//nolint:contextcheck // the one that ended cannot bound what comes after it
	last, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	return server.Shutdown(last)
}

// ServeWeb answers on WebAddress until the context ends.
func ServeWeb(ctx context.Context, handler http.Handler) error {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", WebAddress())
	if err != nil {
		return err
	}
	return Serve(ctx, handler, l)
}

// JSON answers with a value, indented: people read it in a browser.
func JSON(w http.ResponseWriter, status int, value any) {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		slog.Error("an answer cannot be written as JSON", "error", err)
		http.Error(w, "the answer cannot be written as JSON", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // the client may have gone
}
